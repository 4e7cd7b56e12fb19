"""`troupe tensorboard import` with files of torch's SummaryWriter."""

import json
from pathlib import Path

from torch.utils.tensorboard.writer import SummaryWriter

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.server_api import find_server
from webapp.runs.models import Run


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
    first.refresh_from_db()
    assert (first.state, first.iteration, first.attempts.count()) == ("finished", 6, 1)


def valid_points(run: str) -> dict[int, float]:
    """Value by step, as charts show it: of the last attempt that has the step."""
    series = find_server().call(f"/api/v1/runs/{run}/series/", keys="loss")["series"]["loss"]
    starts = {
        attempt: step
        for step, attempt in reversed(list(zip(series["steps"], series["attempts"], strict=True)))
    }
    columns = zip(series["steps"], series["values"], series["attempts"], strict=True)
    valid = [
        (step, value)
        for step, value, attempt in columns
        if not any(later > attempt and step >= start for later, start in starts.items())
    ]
    assert len(dict(valid)) == len(valid)
    return dict(valid)


def resume(folder: Path, steps: range, sign: int, number: int, **options: int) -> None:
    """Write the event file of a process that was resumed."""
    with SummaryWriter(str(folder), filename_suffix=f".{number}", **options) as writer:  # type: ignore[no-untyped-call]
        for step in steps:
            writer.add_scalar("loss", sign * step, step)  # type: ignore[no-untyped-call]


def test_resumed_training_has_one_value_at_each_step(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    resume(folder, range(16), 1, 1)
    run = json.loads(troupe("tensorboard", "import", str(folder), "--json").out)[0]["run"]
    resume(folder, range(16, 18), 1, 2)  # goes on: no step is repeated
    resume(folder, range(10, 21), -1, 3, purge_step=10)
    for _ in range(2):
        troupe("tensorboard", "import", str(folder))
        assert valid_points(run) == {step: float(step if step < 10 else -step) for step in range(21)}
        row = Run.objects.get(pk=run)
        assert (row.state, row.iteration, row.attempts.count()) == ("finished", 20, 2)
    resume(folder, range(5, 7), 1, 4)
    troupe("tensorboard", "import", str(folder))
    row.refresh_from_db()
    assert len(valid_points(run)) == 7
    assert (row.state, row.iteration, row.attempts.count()) == (
        "finished",
        6,
        3,
    )
    begun = row.attempts.order_by("number").values_list("resumed_iteration", flat=True)
    assert list(begun) == [0, 10, 5], "the page marks the first step of each attempt"


def test_a_folder_without_event_files_is_refused(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    result = troupe("tensorboard", "import", str(tmp_path))
    assert result.status == 1 and "no TensorBoard event files" in result.err
