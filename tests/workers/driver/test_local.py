"""A whole run in one process: its run folder, its events, its end."""

import os
import threading
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.workers.running import conversation, curve, events, small_config
from training_core.checkpoints import latest
from training_core.llm.environments.plan_path.game import PlanPathEnvironment
from training_core.llm.environments.registry import ENVIRONMENTS, EnvironmentKind
from workers.driver.attempt import SUPERSEDED, run_attempt
from workers.protocol import Attempt
from workers.reporting.reporter import Reporter
from workers.telemetry.events import AnyEvent


@pytest.fixture(scope="module")
def whole(little_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four iterations."""
    folder = tmp_path_factory.mktemp("whole")
    told = attempt(folder, little_model, run__iterations=4, reporting__system_every=0.01)
    assert run_attempt(told, local=True) == 0
    return folder


def attempt(
    folder: Path, model: Path, number: int = 1, resume_from: Path | None = None, **overrides: object
) -> Attempt:
    config = small_config(model, **overrides)
    return Attempt(config, "r", number, folder, folder.parent, resume_from)


def test_every_event_is_valid(whole: Path) -> None:
    spool = next((whole / "attempt-1" / "spool").glob("*.jsonl"))
    adapter = TypeAdapter(AnyEvent)
    kinds = {adapter.validate_json(line).type for line in spool.read_text().splitlines()}
    assert kinds >= {
        "metrics",
        "episode",
        "episode_annotation",
        "batch",
        "phase",
        "utilisation",
        "checkpoint",
        "log",
        "status",
    }


def test_the_utilisation_of_each_workers_device_is_reported(whole: Path) -> None:
    told = events(whole, "utilisation")
    assert {event["worker"] for event in told} == {"planner", "executor"}
    assert all(event["device"].endswith(f"CPU, process {os.getpid()}") for event in told)
    moments = [moment for event in told if event["worker"] == "planner" for moment, _ in event["samples"]]
    assert moments == sorted(set(moments)), "each sample once, in order of time"


def test_the_log_reports_the_course_of_the_run(whole: Path) -> None:
    lines = [event["message"] for event in events(whole, "log") if event["source"] == "driver"]
    for start in (
        "starting without a checkpoint",
        "policy planner: ",
        "policy executor: ",
        "all workers have started after ",
        "evaluation after iteration 4, greedy: success ",
        "checkpoint of iteration 4: ",
        "finished after 4 iterations",
    ):
        assert any(line.startswith(start) for line in lines), (start, lines)
    numbers = [line.partition(":")[0] for line in lines if line.startswith("iteration ")]
    assert numbers == [f"iteration {number}" for number in (1, 2, 3, 4)]


def test_an_ended_run_leaves_no_thread(little_model: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    assert run_attempt(attempt(tmp_path / "run", little_model, run__iterations=1), local=True) == 0
    for thread in set(threading.enumerate()) - before:
        thread.join(300)
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not left


def test_metrics_that_scripts_rely_on_are_there(whole: Path) -> None:
    points = {(name, event["step"]) for event in events(whole, "metrics") for name in event["values"]}
    for name in (
        "train/return",
        "train/planner/reward",
        "train/executor/reward",
        *(
            f"policy/planner/{item}"
            for item in ("loss", "entropy", "kl", "clip_fraction", "grad_norm", "lr", "ratio_max")
        ),
        *(f"groups/executor/{item}" for item in ("zero_variance", "too_easy", "too_hard")),
        *(
            f"rollout/{item}"
            for item in ("tokens_per_second", "episodes_per_second", "staleness", "truncated", "failed")
        ),
        *(f"time/{item}" for item in ("rollout", "update", "sync", "iteration")),
        *(f"compute/planner/{item}_flops_per_second" for item in ("rollout", "update")),
        "progress/episodes",
        "progress/tokens",
        "progress/env_steps",
    ):
        assert {(name, step) for step in (1, 2, 3, 4)} <= points, name
    for name in ("eval/success", "eval/return", "eval_sampled/success"):
        assert {(name, step) for step in (0, 1, 2, 3, 4)} <= points, name
    assert any(name.startswith("system/") for name, _ in points)
    assert not any(name.endswith("_mfu") for name, _ in points), "a CPU's peak is not known"


def test_engine_and_learner_agree_about_every_sampled_token(whole: Path) -> None:
    told = {event["episode"]: event for event in events(whole, "episode") if event["kind"] == "train"}
    points = [event["values"] for event in events(whole, "metrics")]
    for role in ("planner", "executor"):
        largest = [
            values[f"policy/{role}/mismatch_max"] for values in points if f"policy/{role}/loss" in values
        ]
        assert len(largest) == 4 and all(0.0 <= value < 1e-3 for value in largest), "fp32 on both sides"
    compared = 0
    for event in events(whole, "episode_annotation"):
        for turn in event["turns"]:
            candidates = told[event["episode"]]["turns"][turn["turn"]]["candidates"]
            for learnt, candidate in zip(turn.get("training_logprobs", []), candidates, strict=False):
                assert learnt == pytest.approx(candidate["logprobs"], abs=1e-3)
                compared += len(learnt)
    assert compared > 0


def test_probes_are_the_same_tasks_in_every_evaluation(whole: Path) -> None:
    probes: dict[int, list[str]] = {}
    for event in events(whole, "episode"):
        if event["kind"] == "eval":
            assert event["probe"]
            probes.setdefault(event["iteration"], []).append(event["task"])
    assert sorted(probes) == [0, 1, 2, 3, 4]
    assert len({tuple(tasks) for tasks in probes.values()}) == 1
    assert len(probes[0]) == 2


def test_versions_go_up_with_every_publication(whole: Path) -> None:
    for event in events(whole, "episode"):
        behind = 1 if event["kind"] == "train" else 0
        assert event["versions"] == dict.fromkeys(("planner", "executor"), event["iteration"] - behind)


def test_states_and_heartbeats_are_reported(whole: Path) -> None:
    states = [(event["state"], event["iteration"]) for event in events(whole, "status")]
    assert states == [("starting", 0), ("running", 0), ("finished", 4)]
    assert events(whole, "status")[0]["message"] == "Starting workers"
    facts = events(whole, "status")[0]["facts"]
    assert facts["packages"]["torch"]
    assert facts["provenance"]["machine"]["host"] and facts["provenance"]["repositories"]


@pytest.mark.slow
def test_a_resumed_run_gives_the_same_numbers(whole: Path, little_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model, run__iterations=4, checkpoint__every=2), local=True) == 0
    middle = folder / "checkpoints" / "iteration-000002"
    again = attempt(folder, little_model, 2, middle, run__iterations=4)
    assert run_attempt(again, local=True) == 0
    straight, resumed = curve(whole), curve(folder, 2)
    later = {key: value for key, value in straight.items() if key[1] > 2}
    assert len(later) > 50
    assert {key: resumed[key] for key in later} == later
    assert [item for item in conversation(whole) if item[0] > 2] == conversation(folder, 2)


@pytest.mark.parametrize(("command", "state"), [("stop", "stopped"), ("pause", "paused")])
def test_the_servers_command_is_executed_after_the_iteration(
    command: str, state: str, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporter, "command", command)
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model, run__iterations=5, evaluation__every=0), local=True) == 0
    assert [(event["state"], event["iteration"]) for event in events(folder, "status")][-1] == (state, 1)
    assert latest(folder / "checkpoints") == folder / "checkpoints" / "iteration-000001"


def test_a_superseded_attempt_reports_no_end(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporter, "command", "exit")
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model), local=True) == SUPERSEDED
    assert [event["state"] for event in events(folder, "status")] == ["starting", "running"]
    assert not (folder / "checkpoints").exists()


def test_an_environment_that_raises_makes_a_failed_episode(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crumbling(PlanPathEnvironment):
        def observe(self, role: str) -> str:
            if self.task_id.endswith("3"):
                raise OSError("the floor gave way")
            return super().observe(role)

    monkeypatch.setitem(
        ENVIRONMENTS, "plan_path", EnvironmentKind(ENVIRONMENTS["plan_path"].config, Crumbling)
    )
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model, run__iterations=1), local=True) == 0
    assert curve(folder)["rollout/failed", 1] == 1.0
    failed = [event for event in events(folder, "episode") if event["failed"]]
    assert failed
    assert "the floor gave way" in failed[0]["error"]
    assert curve(folder)["train/return", 1] > -10


def test_a_stop_request_during_base_model_creation_ends_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporter, "command", "stop")
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, Path("tiny")), local=True) == 0
    last = events(folder, "status")[-1]
    assert (last["state"], last["iteration"]) == ("stopped", 0)
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").glob("tiny-*/troupe.json"))
