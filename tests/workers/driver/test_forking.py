"""A fork continues from another run's checkpoint: with its weights, and with its own config."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.workers.running import conversation, curve, events, small_config
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt


@pytest.fixture(scope="module")
def parent(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three iterations, every checkpoint kept."""
    folder = tmp_path_factory.mktemp("parent")
    config = small_config(little_model, run__iterations=3, checkpoint__keep=5)
    assert run_attempt(Attempt(config, "parent", 1, folder, folder.parent), local=True) == 0
    return folder


def fork(folder: Path, parent: Path, model: Path, at: int = 2, **overrides: object) -> int:
    """Its exit status."""
    config = small_config(model, **{"run__iterations": 3, "checkpoint__keep": 5, **overrides})
    origin = parent / "checkpoints" / f"iteration-{at:06d}"
    return run_attempt(Attempt(config, "fork", 1, folder, folder.parent, fork_from=origin), local=True)


def weights(folder: Path, iteration: int, policy: str) -> dict[str, object]:
    return load_file(folder / "checkpoints" / f"iteration-{iteration:06d}" / policy / "model.safetensors")


@pytest.mark.extended
def test_a_fork_without_edits_repeats_its_parent(parent: Path, little_model: Path, tmp_path: Path) -> None:
    assert fork(tmp_path, parent, little_model) == 0
    there = {place: value for place, value in curve(parent).items() if place[1] >= 2}
    here = curve(tmp_path)
    evaluated = {place for place in here if place[1] == 2}
    assert {"eval/success", "eval/return", "eval_sampled/return"} <= {name for name, _ in evaluated}
    assert here == {place: there[place] for place in here}, "first of all the parent's evaluation"
    said = [turn for turn in conversation(tmp_path) if turn[0] == 3]
    assert said == [turn for turn in conversation(parent) if turn[0] == 3]


def test_a_fork_has_its_own_config_and_its_own_best(parent: Path, little_model: Path, tmp_path: Path) -> None:
    edits = {"policies__planner__learner__learning_rate": 1e-5}
    assert fork(tmp_path, parent, little_model, 1, **edits) == 0
    assert curve(tmp_path)["policy/planner/lr", 2] < curve(parent)["policy/planner/lr", 2]
    assert sorted(item.name for item in (tmp_path / "checkpoints").iterdir()) == [
        "iteration-000002", "iteration-000003",
    ]  # fmt: skip
    assert [event for event in events(tmp_path, "checkpoint") if event["best"]], (
        "the parent's best is not its own"
    )


def test_a_policy_that_a_fork_freezes_keeps_what_it_learnt(
    parent: Path, little_model: Path, tmp_path: Path
) -> None:
    frozen = {"team__roles__planner__trained": False}
    assert fork(tmp_path / "a", parent, little_model, **frozen) == 0
    learnt = weights(parent, 2, "planner")
    kept = weights(tmp_path / "a", 3, "planner")
    assert all((kept[name] == learnt[name]).all() for name in learnt)  # type: ignore[attr-defined]
    assert curve(tmp_path / "a")["eval/return", 2] == curve(parent)["eval/return", 2]

    again = {"run__iterations": 4}  # and is trained again by a fork of the fork
    assert fork(tmp_path / "b", tmp_path / "a", little_model, 3, **again) == 0
    trained = weights(tmp_path / "b", 4, "planner")
    assert any((trained[name] != learnt[name]).any() for name in learnt)  # type: ignore[attr-defined]
    assert curve(tmp_path / "b")["eval/return", 3] == curve(tmp_path / "a")["eval/return", 3]
