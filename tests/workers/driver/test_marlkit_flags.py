"""What MARLKit's document runs, run here: the example that resumes, and every flag by the guide's table."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.architecture.source import ROOT
from tests.workers.running import curve
from training_core.config.effects import unused_settings
from training_core.config.files import load_config, parse_overrides
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from training_core.marl.trainer import MarlTrainer
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

SHORT: dict[str, Any] = {
    "run.iterations": 2,
    "rollout.environments": 4,
    "evaluation.every": 1,
    "evaluation.episodes": 2,
    "checkpoint.every": 1,
}


@pytest.mark.extended
def test_the_example_that_resumes_runs(tmp_path: Path) -> None:
    first = load_config("spread_mappo", SHORT)
    assert run_attempt(Attempt(first, "r", 1, tmp_path / "one", tmp_path), local=True) == 0
    checkpoint = tmp_path / "one" / "checkpoints" / "iteration-000002"
    changes = SHORT | {"checkpoint.resume_from": str(checkpoint), "run.iterations": 3}
    words = [f"{name}={value}" for name, value in changes.items()]
    places = ["--folder", str(tmp_path / "two"), "--home", str(tmp_path)]
    command = [sys.executable, "-m", "workers.run", "--preset", "spread_mappo", "--local", *words, *places]
    subprocess.run(command, cwd=ROOT, check=True)
    assert {step for key, step in curve(tmp_path / "two") if key == "policy/agents/lr"} == {3}


def rows() -> list[tuple[str, dict[str, Any]]]:
    """Flags of the guide's table, and their overrides."""
    table = (
        (ROOT / "docs/train/from-marlkit.md")
        .read_text()
        .partition("## Command line")[2]
        .partition("\n## ")[0]
    )
    found = []
    for flag, here in re.findall(r"^\| `(--[^|]*)` \| (.*) \|$", table, re.MULTILINE):
        first = re.match(r"`([^`]*)`", here)
        assert first is not None, here
        found.append((flag, parse_overrides(first[1].split(" "))))
    return found


NOT_HERE = {
    "--resume PATH": "has a test of its own",
    "--pz-env mypackage.my_env:parallel_env": "has a test of its own, with a package that there is",
}
REPORTING = {
    "--logger tensorboard",
    "--logger wandb",
    "--wandb-project marlkit",
    "--run-name NAME",
    "--log-every 10",
}
REFUSED = {"--norm-obs": "no finite bounds"}
SIDES = {"--num-good 1": 2, "--num-adversaries 3": 4, "--num-obstacles 2": 3}
"""Flags of simple_tag, and another number to try."""
OTHERS: dict[str, dict[str, Any]] = {
    "--algo mappo": {"algorithm.type": "ippo"},
    "--env mpe_simple_spread": {"environment.type": "mpe_simple_reference"},
    "--num-agents 3": {"environment.num_agents": 2},
    "--seed 0": {"run.seed": 1},
    "--iter 500": {"run.iterations": 7},
    "--max-cycles 25": {"environment.max_cycles": 100},
    "--local-ratio 0.5": {"environment.local_ratio": 0.9},
    "--lr-schedule linear": {"policies.agents.learner.schedule": "constant"},
}
"""Flags whose values are the preset's own: another value, which must make a difference."""


def learnt(preset: str, changes: dict[str, Any]) -> torch.Tensor:
    """All weights after two iterations."""
    config = load_config(preset, SHORT | changes)
    assert isinstance(config, MarlConfig)
    trainer = MarlTrainer(config)
    for iteration in (1, 2):
        trainer.collect(iteration)
        trainer.update(iteration)
    return torch.cat([each.actor_adam.weights.detach() for each in trainer.learners.values()])


def differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape != other.shape or not torch.equal(one, other)


@pytest.fixture(scope="module")
def plain() -> torch.Tensor:
    return learnt("spread_mappo", {})


@pytest.mark.parametrize(("flag", "changes"), rows(), ids=[flag for flag, _ in rows()])
def test_every_flag_of_the_readme_has_an_effect_or_is_refused(
    flag: str, changes: dict[str, Any], plain: torch.Tensor
) -> None:
    if flag in NOT_HERE:
        return
    if flag in REFUSED:
        with pytest.raises(ConfigError, match=REFUSED[flag]):
            load_config("spread_mappo", changes)
        return
    if flag in SIDES:
        (name,) = changes
        tag = learnt("tag_mappo", changes)
        assert torch.equal(tag, learnt("tag_mappo", {}))
        assert differ(tag, learnt("tag_mappo", {name: SIDES[flag]}))
        return
    gru = {"policies.agents.network.type": "gru"}
    recurrent = gru if any("recurrent_" in name or "chunk" in name for name in changes) else {}
    tree = load_config("spread_mappo", recurrent | changes).model_dump(mode="json")
    for name, value in changes.items():
        found: Any = tree
        for part in name.split("."):
            found = found[part]
        assert found == value
    if flag in REPORTING:
        return
    if recurrent or flag.startswith("--pad"):
        assert learnt("spread_mappo", recurrent | changes).isfinite().all()
    elif flag in OTHERS:
        assert differ(plain, learnt("spread_mappo", OTHERS[flag]))
    else:
        assert differ(plain, learnt("spread_mappo", changes))


@pytest.mark.parametrize(
    ("preset", "unused"),
    [("spread_mappo", {"pad_observations", "pad_action_space"}), ("tag_mappo", {"pad_action_space"})],
)
def test_padding_that_changes_nothing_is_reported(preset: str, unused: set[str]) -> None:
    pads = {f"environment.supersuit.{name}": True for name in ("pad_observations", "pad_action_space")}
    found = unused_settings(load_config(preset, pads))
    assert {each.path for each in found} == {f"environment.supersuit.{name}" for name in unused}
    assert all("all agents of mpe_simple_" in each.why for each in found)
