"""Checkpoints handed out as Hugging Face folders."""

import asyncio
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.webapp.api.conftest import caller
from tests.webapp.checkpoints.conftest import Make
from tests.workers.running import little_model, small_config
from webapp.accounts.models import AuditEntry, User
from webapp.checkpoints import downloads
from webapp.runs.models import Run


def unpacked(answer: Any) -> tarfile.TarFile:
    body = b"".join(answer.streaming_content)
    assert len(body) == int(answer["Content-Length"])
    return tarfile.open(fileobj=io.BytesIO(body))


def test_policies_without_what_only_learning_needs(run: Run, user: User, make: Make) -> None:
    make(20, metrics={"eval/success": 0.75})
    answer = caller(user, "read")(f"runs/{run.pk}/checkpoints/last/download/")
    assert f'filename="{run.pk}-iteration-000020.tar"' in answer["Content-Disposition"]
    archive = unpacked(answer)
    root = f"{run.pk}-iteration-000020"
    assert sorted(archive.getnames()) == [
        f"{root}/{policy}/{name}"
        for policy in ("executor", "planner")
        for name in ("README.md", "config.json", "model.safetensors")
    ]
    weights = archive.extractfile(f"{root}/planner/model.safetensors")
    card = archive.extractfile(f"{root}/planner/README.md")
    assert weights is not None and weights.read() == b"weights of planner"
    assert card is not None and '"eval/success": 0.75' in card.read().decode()
    assert (
        AuditEntry.objects.get(act="checkpoint.download").target == f"{run.pk}/checkpoints/iteration-000020"
    )


def test_one_policy_and_what_is_refused(run: Run, user: User, stranger: User, make: Make) -> None:
    make(20)
    make(40, removed=True)
    call = caller(user, "read")
    path = f"runs/{run.pk}/checkpoints/20/download/"
    assert all("/planner/" in name for name in unpacked(call(path, policy="planner")).getnames())
    assert "the checkpoint has executor, planner" in call(path, policy="../x").json()["errors"]["policy"]
    assert call(f"runs/{run.pk}/checkpoints/40/download/").status_code == 409
    assert caller(stranger, "read")(path).status_code == 404


def test_links_are_not_followed_and_missing_files_are_said(
    run: Run, user: User, make: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / run.pk / make(20).path
    secret = tmp_path / "secret"
    secret.write_text("key")
    (folder / "planner" / "notes.txt").symlink_to(secret)
    (tmp_path / "outside" / "judge").mkdir(parents=True)
    (tmp_path / "outside" / "judge" / "config.json").write_text("{}")
    (folder / "judge").symlink_to(tmp_path / "outside" / "judge")
    call = caller(user, "read")
    names = unpacked(call(f"runs/{run.pk}/checkpoints/20/download/")).getnames()
    assert not [name for name in names if "notes" in name or "judge" in name]
    settings.TROUPE_HOME = tmp_path / "elsewhere"
    gone = call(f"runs/{run.pk}/checkpoints/20/download/")
    assert gone.status_code == 409
    assert "not on the web server's machine" in gone.json()["detail"]


def test_the_server_reads_the_disk_beside_its_loop(run: Run, user: User, make: Make) -> None:
    archive = downloads.checkpoint_download(user, make(20))

    async def gather() -> bytes:
        return b"".join([chunk async for chunk in downloads._in_threads(archive)])

    assert asyncio.run(gather()) == b"".join(archive.chunks())


@pytest.mark.extended
def test_transformers_loads_what_was_downloaded(run: Run, user: User, make: Make, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from workers.driver.attempt import run_attempt
    from workers.protocol import Attempt

    make(20)
    folder = tmp_path / "trained"
    config = small_config(little_model(tmp_path / "little"), run__iterations=1, evaluation__every=0)
    assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
    place = tmp_path / "runs" / run.pk / "checkpoints"
    (place / "iteration-000020").rename(tmp_path / "aside")
    (folder / "checkpoints" / "iteration-000001").rename(place / "iteration-000020")

    unpacked(caller(user, "read")(f"runs/{run.pk}/checkpoints/20/download/")).extractall(tmp_path)
    got = tmp_path / f"{run.pk}-iteration-000020" / "planner"
    model = AutoModelForCausalLM.from_pretrained(got)
    tokenizer = AutoTokenizer.from_pretrained(got)
    ids = tokenizer("right down", return_tensors="pt").input_ids
    assert model(ids).logits.shape == (1, 2, len(tokenizer))
