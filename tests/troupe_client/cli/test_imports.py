"""`troupe tensorboard import` with files of torch's SummaryWriter."""

import json
from pathlib import Path

import pytest
from torch.utils.tensorboard.writer import SummaryWriter

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.server_api import find_server
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


def write(folder: Path, steps: range) -> None:
    with SummaryWriter(str(folder)) as writer:  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("rollout/ep_rew_mean", step / 4, step)  # type: ignore[no-untyped-call]
            writer.add_text("note", "no number", step)  # type: ignore[no-untyped-call]


def points(run: str) -> str:
    return json.dumps(find_server().call(f"/api/v1/runs/{run}/series/", keys="rollout/ep_rew_mean"))


def test_a_repeated_import_adds_new_values_only(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a", range(5))
    write(tmp_path / "logs" / "b", range(3))
    result = troupe("tensorboard", "import", str(tmp_path / "logs"), "--json")
    assert result.status == 0, result.err
    made = {item["name"]: item for item in json.loads(result.out)}
    assert {name: item["values"] for name, item in made.items()} == {"a": 5, "b": 3}
    first = Run.objects.get(pk=made["a"]["run"])
    assert (first.state, first.iteration, first.tags) == ("finished", 4, ["tensorboard"])
    events, seen = first.event_count, points(first.pk)
    assert "1.0" in seen and "1.25" not in seen

    troupe("tensorboard", "import", str(tmp_path / "logs"))
    first.refresh_from_db()
    assert first.event_count == events and Run.objects.count() == 2

    write(tmp_path / "logs" / "a", range(5, 7))
    troupe("tensorboard", "import", str(tmp_path / "logs"))
    assert "1.5" in points(first.pk) and Run.objects.count() == 2


def test_a_folder_without_event_files_is_refused(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    result = troupe("tensorboard", "import", str(tmp_path))
    assert result.status == 1 and "no TensorBoard event files" in result.err
