"""Commands about checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.training_core.llm.toys import make_model
from tests.troupe_client.cli.conftest import Troupe
from training_core.checkpoints import writing
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.loading import load_model
from training_core.llm.models.lora import add_adapter, save_adapter, trained_weights
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run


@pytest.fixture
def checkpoint(run: Run, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> Checkpoint:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    settings.TROUPE_HOME = tmp_path
    with writing(tmp_path / "runs" / run.pk / "checkpoints", 20, {}) as draft:
        (draft / "planner").mkdir()
        for name, content in (("config.json", "{}"), ("model.safetensors", "weights")):
            (draft / "planner" / name).write_text(content)
    return Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=20, path="checkpoints/iteration-000020", size=5, time=timezone.now()
    )  # fmt: skip


def test_fork_and_lineage(troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint) -> None:
    result = troupe("fork", run.pk, "last", "run.seed=5", "--name", "mine", "--json")
    assert result.status == 0, result.err
    made = json.loads(result.out)
    assert Run.objects.get(pk=made["id"]).config["run"]["seed"] == 5
    assert made["id"] in troupe("fork", run.pk, "20").out or Run.objects.filter(parent=run).count() == 2
    tree = troupe("checkpoint", "lineage", made["id"]).out
    assert run.pk in tree
    assert "mine  at 20" in tree
    assert json.loads(troupe("checkpoint", "lineage", run.pk, "--json").out)["here"]


def test_invalid_forks_are_refused(troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint) -> None:
    assert "set a larger total" in troupe("fork", run.pk, "20", "run.iterations=10").err
    assert "no checkpoint 40" in troupe("fork", run.pk, "40").err
    assert "is not a checkpoint" in troupe("fork", run.pk, "../x").err


def test_download(troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint, tmp_path: Path) -> None:
    result = troupe("checkpoint", "download", run.pk, "--to", str(tmp_path / "got" / "it"), "--json")
    assert result.status == 0, result.err
    assert json.loads(result.out)["policies"] == [str(tmp_path / "got" / "it" / "planner")]
    assert (tmp_path / "got" / "it" / "planner" / "model.safetensors").read_text() == "weights"
    assert (
        "already exists" in troupe("checkpoint", "download", run.pk, "--to", str(tmp_path / "got" / "it")).err
    )
    assert "no policy 'judge'" in troupe("checkpoint", "download", run.pk, "20", "--policy", "judge").err
    assert sorted(item.name for item in (tmp_path / "got").iterdir()) == ["it"]


def test_download_merges_adapters(
    troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    base, folder = tmp_path / "base", tmp_path / "runs" / run.pk / checkpoint.path / "planner"
    make_model().save_pretrained(base)
    (folder / "model.safetensors").unlink()
    model = load_model(base)
    add_adapter(model, Lora(), 0)
    save_adapter(folder, model, trained_weights(model), str(base))
    result = troupe("checkpoint", "download", run.pk, "--to", str(tmp_path / "kept"))
    assert result.status == 0 and (tmp_path / "kept" / "planner" / "adapter_model.safetensors").is_file()
    result = troupe("checkpoint", "download", run.pk, "--merge", "--to", str(tmp_path / "merged"))
    assert result.status == 0, result.err
    assert (tmp_path / "merged" / "planner" / "model.safetensors").is_file()
    assert not (tmp_path / "merged" / "planner" / "adapter_model.safetensors").exists()


def test_pin_delete_and_prune(
    troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    Run.objects.filter(pk=run.pk).update(state="finished")
    assert "pinned" in troupe("checkpoint", "pin", run.pk, "20").out
    assert "unpin it first" in troupe("checkpoint", "delete", run.pk, "last").err
    assert (
        "would delete nothing"
        in troupe("checkpoint", "prune", run.pk, "--last", "0", "--best", "0", "--dry").out
    )
    assert not json.loads(troupe("checkpoint", "unpin", run.pk, "20", "--json").out)["pinned"]
    assert json.loads(troupe("checkpoint", "prune", run.pk, "--last", "0", "--json").out)["deleted"] == [20]
    assert not (tmp_path / "runs" / run.pk / checkpoint.path).exists()
    assert "removed" in troupe("checkpoint", "list", run.pk).out


def test_resume_from_a_named_checkpoint(
    troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint
) -> None:
    Run.objects.filter(pk=run.pk).update(state="stopped")
    assert "is not a checkpoint" in troupe("resume", run.pk, "--from", "first").err
    assert "no checkpoint 40" in troupe("resume", run.pk, "--from", "40").err
    assert "queued" in troupe("resume", run.pk, "--from", "20").out
    assert Run.objects.get(pk=run.pk).resume_from == checkpoint.path


def test_a_damaged_checkpoint_is_listed_and_refused(
    troupe: Troupe, connected: str, run: Run, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    Run.objects.filter(pk=run.pk).update(state="stopped")
    (tmp_path / "runs" / run.pk / checkpoint.path / "planner" / "model.safetensors").write_text("wei")
    result = troupe("resume", run.pk, "--from", "20")
    assert result.status != 0
    assert "damaged: planner/model.safetensors has 3 bytes instead of 7" in " ".join(result.err.split())
    assert "damaged" in troupe("checkpoint", "list", run.pk).out
