"""Whole runs of small networks in one process: their events, printed lines, and resumption from a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.workers.running import curve, events, small_networks
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt
from workers.telemetry.events import AnyEvent

SMALL = {"evaluation__episodes": 4, "evaluation__probes": 1, "reporting__system_every": 0.001}


def small(preset: str = "spread_mappo", **overrides: Any) -> MarlConfig:
    return small_networks(preset, **SMALL | overrides)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four iterations."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_attempt(Attempt(small(), "r", 1, folder, folder.parent), local=True) == 0
    return folder


def test_every_event_is_valid(whole: Path) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(AnyEvent)
    (spool,) = (whole / "attempt-1" / "spool").glob("*.jsonl")
    kinds = {adapter.validate_json(line).type for line in spool.read_text().splitlines()}
    assert kinds >= {"metrics", "episode", "phase", "checkpoint", "log", "status"}
    assert events(whole, "status")[-1]["state"] == "finished"


def test_metrics_have_the_names_that_scripts_rely_on(whole: Path) -> None:
    names = {name for name, _ in curve(whole)}
    wanted = {
        "explained_variance", "value_loss", "actor_loss", "ratio_mean", "ratio_std", "kl", "entropy", "clip_fraction", "lr",
    }  # fmt: skip
    assert names >= {f"policy/agents/{name}" for name in wanted}
    assert names >= {"eval/return", "eval/return_std", "eval/length", "eval_sampled/return", "train/return"}
    assert not {name for name in names if "success" in name or name.endswith("tokens_per_second")}
    assert curve(whole)["progress/env_steps", 4] == 4 * 25 * 4


def test_returns_are_sums_of_the_transcripts_rewards(whole: Path) -> None:
    (episode,) = [
        event for event in events(whole, "episode") if (event["iteration"], event["kind"]) == (4, "eval")
    ]
    earned = sum(turn["candidates"][0]["reward"] for turn in episode["turns"])
    assert earned == pytest.approx(episode["episode_return"], abs=1e-3)
    assert episode["success"] is None  # not defined by the environment
    boards = [turn["board"] for turn in episode["turns"]]
    assert episode["final_board"]["kind"] == "plane" and episode["final_board"] not in boards
    assert len(episode["turns"]) == 25 and episode["outcome"] == "25 steps"
    assert all(turn["board"]["kind"] == "plane" for turn in episode["turns"])
    assert [line.partition(":")[0] for line in episode["turns"][0]["candidates"][0]["text"].splitlines()] == [
        "agent_0", "agent_1", "agent_2",
    ]  # fmt: skip


def test_the_two_lines_of_an_evaluation_are_printed(whole: Path) -> None:
    said = [event["message"] for event in events(whole, "log") if event["source"] == "driver"]
    (returns,) = [line for line in said if line.startswith("[mpe_simple_spread | mappo | Iter 4]")]
    figures = said[said.index(returns) + 1]
    last = curve(whole)
    assert f"greedy return={last['eval/return', 4]:.2f} ± {last['eval/return_std', 4]:.2f}" in returns
    assert figures.startswith(f"EV={last['policy/agents/explained_variance', 4]:.3f} KL=")


def test_a_resumed_run_draws_the_same_curve(whole: Path, tmp_path: Path) -> None:
    halfway = whole / "checkpoints" / "iteration-000002"
    resumed = Attempt(small(), "r", 1, tmp_path / "resumed", tmp_path, resume_from=halfway)
    assert run_attempt(resumed, local=True) == 0
    late = {key: value for key, value in curve(whole).items() if key[1] > 2}
    assert curve(tmp_path / "resumed") == late


def fragile(every: int) -> dict[str, Any]:
    """A run whose episodes fail in their third step, where their seed is a multiple of `every`."""
    path = "tests.training_core.marl.environments.fragile:Fragile"
    return {
        "environment": {"type": "custom_marl", "path": path, "args": {"every": every}},
        "run__iterations": 2,
        "rollout__environments": 8,
        "rollout__steps": 12,
        "evaluation__episodes": 24,
        "evaluation__probes": 8,
        "reporting__episodes_per_iteration": 2,
    }


def test_failed_episodes_are_counted_and_kept_with_their_error(tmp_path: Path) -> None:
    config = small("spread_toy", **fragile(every=3))
    assert run_attempt(Attempt(config, "r", 1, tmp_path, tmp_path.parent), local=True) == 0
    values = curve(tmp_path)
    assert values["rollout/failed", 1] > 2 and values["eval/failed", 2] > 0
    assert (values["train/return", 1], values["eval/return", 2], values["eval/return_std", 2]) == (
        10.0,
        10.0,
        0.0,
    )
    kept = [event for event in events(tmp_path, "episode") if event["kind"] == "train"]
    assert [event["iteration"] for event in kept] == [1, 1, 2, 2]  # as many as are kept of an iteration
    assert all(event["failed"] and event["error"].endswith("the physics blew up") for event in kept)
    assert all(event["outcome"] == "failed in step 3" and event["episode_return"] == 3.0 for event in kept)
    told = [event for event in events(tmp_path, "episode") if event["kind"] == "eval" and event["failed"]]
    assert told and all(len(event["turns"]) == 3 and event["error"] for event in told)


def test_a_pickle_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="loading a pickle can run code"):
        small(checkpoint__resume_from="checkpoints/mappo_SS_MPE/ckpt_100.pt")
