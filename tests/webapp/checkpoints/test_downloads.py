"""Checkpoints handed out: Hugging Face folders, and small networks whole, loaded and gone on from as the docs say."""

import asyncio
import io
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from tests.webapp.api.conftest import caller
from tests.webapp.checkpoints.conftest import Make
from tests.workers.running import curve, little_model, small_config
from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Project, User
from webapp.checkpoints import downloads
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from webapp.scheduling.forking import run_fork
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt
from workers.run import main

DOCS = Path(__file__).parents[3] / "docs/train/marl.md"
SMALL: dict[str, Any] = {
    "run.iterations": 2, "rollout.environments": 4, "rollout.steps": 25, "evaluation.episodes": 4,
    "checkpoint.every": 1,
}  # fmt: skip


@pytest.fixture
def checkpoint(project: Project, user: User, settings: Any, tmp_path: Path) -> Checkpoint:
    """Of iteration 1 of a run of two."""
    settings.TROUPE_HOME = tmp_path
    config = load_config("spread_mappo", SMALL)
    run = Run.objects.create(
        project=project, owner=user, name="spread", preset="spread_mappo", iterations=2,
        config=config.model_dump(mode="json"),
    )  # fmt: skip
    assert run_attempt(Attempt(config, run.pk, 1, tmp_path / "runs" / run.pk, tmp_path), local=True) == 0
    return Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=1, path="checkpoints/iteration-000001", size=1,
        time=timezone.now(), metrics={"eval/return": -80.0},
    )  # fmt: skip


def downloaded(user: User, checkpoint: Checkpoint, to: Path, **query: str) -> Path:
    """The tar, unpacked."""
    answer = caller(user, "read")(f"runs/{checkpoint.run_id}/checkpoints/1/download/", **query)
    with tarfile.open(fileobj=io.BytesIO(b"".join(answer.streaming_content))) as archive:  # type: ignore[attr-defined]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # absent before Python 3.11.4
        archive.extractall(to)
    (place,) = to.iterdir()
    return place


def test_it_is_loaded_and_played_as_the_docs_say(
    user: User,
    checkpoint: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    downloaded(user, checkpoint, tmp_path / "got").rename(tmp_path / "spread-best")
    (code,) = re.findall(r"```python\n(from pathlib import Path\n.*?)```", DOCS.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    capsys.readouterr()
    exec(code, names)
    assert len(capsys.readouterr().out.splitlines()) == 1 + 25
    trainer = type(names["trainer"])(names["config"])
    trainer.load(tmp_path / "runs" / checkpoint.run_id / checkpoint.path)
    runner = type(names["runner"])(names["make_environments"](names["config"].environment, 1), trainer.actors)
    runner.reset(seed=0)
    for _ in range(25):
        step = runner.step(dict.fromkeys(trainer.actors))
    assert (step.transition.rewards["agents"] == names["step"].transition.rewards["agents"]).all()
    trainer.close()


def test_what_was_downloaded_is_gone_on_from(user: User, checkpoint: Checkpoint, tmp_path: Path) -> None:
    place = downloaded(user, checkpoint, tmp_path / "got")
    words = [f"{path}={value}" for path, value in SMALL.items()] + [f"checkpoint.resume_from={place}"]
    folder = ["--folder", str(tmp_path / "on"), "--home", str(tmp_path)]
    assert main(["--preset", "spread_mappo", "--local", *folder, *words]) == 0
    before = curve(tmp_path / "runs" / checkpoint.run_id)
    late = {key: value for key, value in curve(tmp_path / "on").items() if key[1] == 2}
    assert late and late == {key: before[key] for key in late}


def test_one_policy_alone_and_its_card(user: User, checkpoint: Checkpoint, tmp_path: Path) -> None:
    place = downloaded(user, checkpoint, tmp_path / "got", policy="agents")
    assert {item.name for item in (place / "agents").iterdir()} == {
        "README.md", "actor.safetensors", "critic.safetensors", "optimizer.safetensors", "policy.json",
    }  # fmt: skip
    card = (place / "agents" / "README.md").read_text()
    assert '"eval/return": -80.0' in card and '"type": "mlp"' in card and "transformers" not in card


def test_a_fork_goes_on_and_what_cannot_fit_is_refused(
    user: User, checkpoint: Checkpoint, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run: None)
    fork = run_fork(user, checkpoint, {"policies.agents.learner.actor_learning_rate": 0.0005})
    assert (fork.parent, fork.iteration) == (checkpoint.run, 1)
    with pytest.raises(ConfigError, match="different network"):
        run_fork(user, checkpoint, {"policies.agents.network.hidden_dim": 32})
    with pytest.raises(ConfigError, match="set a larger total"):
        run_fork(user, checkpoint, {"run.iterations": 1})
    page = ada.get(f"/experiments/new/?fork={checkpoint.pk}").content.decode()
    assert "This run continues from" in page and "at iteration 1" in page


def test_a_pickle_is_refused_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--preset", "spread_toy", "--local", "--home", str(tmp_path)]
    assert main([*words, "checkpoint.resume_from=mappo/ckpt_100.pt"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("checkpoint.resume_from: ") and "name a checkpoint folder of Troupe" in said


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
        f"{root}/config.toml",
        *(
            f"{root}/{policy}/{name}"
            for policy in ("executor", "planner")
            for name in ("README.md", "config.json", "model.safetensors")
        ),
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
    names = unpacked(call(path, policy="planner")).getnames()
    assert names and all("/planner/" in name or name.endswith("/config.toml") for name in names)
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
