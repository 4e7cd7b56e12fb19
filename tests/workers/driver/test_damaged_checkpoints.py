"""An attempt whose checkpoint is damaged: an earlier whole one takes its place, and the run says so."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.running import curve, events, small_networks
from training_core.checkpoints import damage
from training_core.config.files import to_toml
from workers.driver.attempt import FAILED, run_attempt
from workers.job import main as do_job
from workers.launchers.launcher import Launch, driver_command
from workers.protocol import Attempt
from workers.run import main
from workers.storage.folders import JobFolder

CONFIG = small_networks("spread_toy", run__iterations=6, checkpoint__keep=9, evaluation__episodes=4)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of six iterations, with checkpoints of 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("reference")
    assert run_attempt(Attempt(CONFIG, "r", 1, folder, folder.parent), local=True) == 0
    return folder


@pytest.fixture
def folder(reference: Path, tmp_path: Path) -> Path:
    """A run folder with its first two checkpoints."""
    place = tmp_path / "run"
    shutil.copytree(reference, place, ignore=shutil.ignore_patterns("attempt-*", "iteration-000006"))
    return place


def at(folder: Path, iteration: int) -> Path:
    return folder / "checkpoints" / f"iteration-{iteration:06d}"


def resumed(folder: Path, iteration: int, *, fall_back: bool = True) -> int:
    """The exit status of attempt 2."""
    told = Attempt(CONFIG, "r", 2, folder, folder.parent, at(folder, iteration), fall_back=fall_back)
    return run_attempt(told, local=True)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "name"),
    [(cut, "agents/actor.safetensors"), (flip, "agents/actor.safetensors"), (flip, "agents/optimizer.safetensors"),
     (flip, "state.json"), (Path.unlink, "manifest.json"), (cut, "manifest.json")],
)  # fmt: skip
def test_the_newest_intact_checkpoint_replaces_a_damaged_one(
    harm: Callable[[Path], None], name: str, folder: Path, reference: Path
) -> None:
    harm(at(folder, 4) / name)
    found = damage(at(folder, 4))
    assert name in found
    assert resumed(folder, 4) == 0
    expected = {place: value for place, value in curve(reference).items() if place[1] > 2}
    assert curve(folder, 2) == expected, "from iteration 2 the curve is that of a run that was not disturbed"
    [told] = [event for event in events(folder, "checkpoint", 2) if event["damaged"]]
    assert (told["iteration"], told["path"], told["damaged"]) == (4, "checkpoints/iteration-000004", found)
    said = f"the checkpoint of iteration 4 is damaged: {found}; resumed from iteration 2"
    assert said in [event["message"] for event in events(folder, "log", 2) if event["level"] == "warning"]
    facts = {key: value for event in events(folder, "status", 2) for key, value in event["facts"].items()}
    assert (facts["resumed_from"], facts["resume_note"]) == ("iteration-000002", said)
    assert damage(at(folder, 4)) == "", "it was written over on the way"


def test_an_explicitly_chosen_checkpoint_is_not_replaced(folder: Path) -> None:
    flip(at(folder, 4) / "agents" / "critic.safetensors")
    assert resumed(folder, 4, fall_back=False) == FAILED
    last = events(folder, "status", 2)[-1]
    assert (
        "The checkpoint of iteration 4 is damaged: agents/critic.safetensors has changed" in last["message"]
    )
    assert last["message"].endswith("the checkpoint of iteration 2 is whole.")
    assert last["remedy"] == "Resume from that one."
    assert last["facts"] == {}, "another attempt would not help"


def test_all_damaged_checkpoints_are_reported(folder: Path, reference: Path) -> None:
    shutil.copytree(at(reference, 6), at(folder, 6))
    cut(at(folder, 6) / "state.json"), flip(at(folder, 4) / "state.json")
    longer = CONFIG.model_copy(update={"run": CONFIG.run.model_copy(update={"iterations": 7})})
    told = Attempt(longer, "r", 2, folder, folder.parent, at(folder, 6), fall_back=True)
    assert run_attempt(told, local=True) == 0
    damaged = [event["iteration"] for event in events(folder, "checkpoint", 2) if event["damaged"]]
    assert damaged == [6, 4]
    assert min(step for name, step in curve(folder, 2) if name.startswith("train/")) == 3


def test_a_run_without_an_intact_checkpoint_fails_with_a_remedy(folder: Path) -> None:
    for iteration in (2, 4):
        cut(at(folder, iteration) / "state.json")
    assert resumed(folder, 4) == FAILED
    last = events(folder, "status", 2)[-1]
    assert last["message"].startswith("No checkpoint to resume from is whole")
    assert last["remedy"] == "Restore their files, or delete them to start the run from its beginning."


def test_a_missing_checkpoint_counts_as_damaged(folder: Path) -> None:
    shutil.rmtree(at(folder, 4))
    assert resumed(folder, 4) == 0
    [told] = [event for event in events(folder, "checkpoint", 2) if event["damaged"]]
    assert told["damaged"] == "manifest.json is missing"


def test_a_checkpoint_without_hashes_is_used_and_logged(folder: Path) -> None:
    place = at(folder, 4)
    sizes = {
        item.relative_to(place).as_posix(): item.stat().st_size
        for item in place.rglob("*")
        if item.is_file() and item.name != "manifest.json"
    }
    (place / "manifest.json").write_text(str({"layout": 1, "files": sizes}).replace("'", '"'))
    assert resumed(folder, 4) == 0
    assert any(
        "only the sizes of its files were compared" in each["message"] for each in events(folder, "log", 2)
    )
    assert not [event for event in events(folder, "checkpoint", 2) if event["damaged"]]


def test_a_fork_of_a_damaged_checkpoint_fails(folder: Path, tmp_path: Path) -> None:
    flip(at(folder, 4) / "agents" / "actor.safetensors")
    fork = Attempt(CONFIG, "fork", 1, tmp_path / "fork", tmp_path, fork_from=at(folder, 4))
    assert run_attempt(fork, local=True) == FAILED
    told = events(tmp_path / "fork", "status")
    assert "which this run starts from, is damaged: agents/actor.safetensors" in told[-1]["message"]
    assert any("agents/actor.safetensors" in event["facts"].get("origin_damaged", "") for event in told)
    assert not events(tmp_path / "fork", "checkpoint"), "the other run's checkpoint is not its own"


@pytest.mark.parametrize("kind", ["evaluate", "match"])
def test_a_job_of_a_damaged_checkpoint_fails_and_names_it(kind: str, folder: Path, tmp_path: Path) -> None:
    flip(at(folder, 4) / "agents" / "actor.safetensors")
    places = {"checkpoint": str(at(folder, 4)), "other": ""}
    if kind == "match":
        places = {"checkpoint": str(at(folder, 2)), "other": str(at(folder, 4))}
    job = JobFolder(tmp_path / "job")
    job.open(to_toml(CONFIG), {"kind": kind, "parameters": {}, **places})
    assert do_job([str(job.root), "--home", str(tmp_path)]) == 1
    assert (
        "The checkpoint iteration-000004 of run run is damaged: agents/actor"
        in (job.read("error") or {})["reason"]
    )
    damaged = job.read("damage") or {}
    assert damaged["which"] == ("checkpoint" if kind == "evaluate" else "other")


def test_the_command_line_falls_back_only_with_its_option(folder: Path, tmp_path: Path) -> None:
    launch = Launch("r", 2, folder, tmp_path, resume_from=at(folder, 4), fall_back=True)
    words = driver_command(launch, "python")
    assert words[-1] == "--fall-back"
    assert "--fall-back" not in driver_command(
        Launch("r", 2, folder, tmp_path, resume_from=at(folder, 4)), "python"
    )
    flip(at(folder, 4) / "state.json")
    assert main([*words[3:-1], "--local"]) == FAILED
    assert main([*words[3:], "--local"]) == 0
