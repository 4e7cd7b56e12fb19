"""Evaluations during training: the numbers of inline ones, at the step of their weights; ranks and early stopping follow."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.workers.driver.test_checkpointing import Notes, Writer
from tests.workers.running import conversation, curve, events, small_config, small_networks
from training_core.checkpoints import checkpoints
from training_core.errors import ConfigError
from workers.driver.attempt import run_attempt
from workers.driver.checkpointing import CheckpointKeeper
from workers.driver.evaluations import Evaluations
from workers.driver.failure_limit import FailureLimit
from workers.driver.loop import Run, iterate
from workers.driver.run_events import RunEvents
from workers.protocol import Attempt, Collected, EpisodeFacts, Started
from workers.sizing.placement import demand, place
from workers.storage.folders import RunFolder

BESIDE = {"evaluation__mode": "beside", "evaluation__greedy": True, "evaluation__sampled": False}


def facts(success: bool) -> EpisodeFacts:
    return EpisodeFacts(success, False, float(success), {}, {}, {}, 0, 0, 1)


class Evaluator(Writer):
    """A backend whose evaluator ends an evaluation when it is told to, or when it is waited for; success is the iteration's."""

    def __init__(self, successes: dict[int, float] | None = None, *, stopped: bool = False) -> None:
        super().__init__()
        self.successes, self.stopped = successes or {}, stopped
        self.playing: int | None = None
        self.done = False
        self.calls: list[str] = []

    def begin_evaluation(self, iteration: int, plays: list[tuple[str, int]]) -> None:
        assert self.playing is None, "one at a time"
        self.playing, self.done = iteration, False
        self.calls.append(f"begin {iteration} {plays}")

    def evaluated(self, *, wait: bool) -> list[Collected] | None:
        if not self.done and (not wait or self.stopped):
            return None
        self.calls.append(f"end {self.playing}" + " awaited" * (wait and not self.done))
        right = self.successes.get(self.playing or 0, 0.0)
        self.playing = None
        return [Collected([facts(number < right * 10) for number in range(10)], [])]


class Journal(Notes):
    """Remembers evaluations, too."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: dict[int, float] = {}
        self.waits: list[int] = []

    def evaluated(self, step: int, prefix: str, collected: Collected, cached: dict[str, float]) -> None:
        self.values[step] = sum(bool(item.success) for item in collected.facts) / len(collected.facts)
        self.lags[step] = collected.figures[f"{prefix}/lag"]

    def all_evaluated(self, step: int) -> None:
        self.told.append(("evaluated", step, False))

    def waited(self, iteration: int, seconds: float) -> None:
        self.waits.append(iteration)


def evaluations(
    folder: Path, backend: Evaluator, **overrides: Any
) -> tuple[Evaluations, Journal, CheckpointKeeper]:
    config = small_config(Path("m"), **BESIDE | {"run__iterations": 9} | overrides)
    notes: Any = Journal()
    keeper = CheckpointKeeper(config, RunFolder(folder))
    parts: Any = config, backend, notes, keeper, FailureLimit(1)
    return Evaluations(*parts), notes, keeper


def test_an_evaluation_is_reported_at_the_step_of_its_weights_with_its_lag(tmp_path: Path) -> None:
    backend = Evaluator({2: 0.5})
    play, notes, _ = evaluations(tmp_path, backend)
    play.play(2)
    assert [play.reason_to_end(iteration) for iteration in (2, 3)] == ["", ""] and notes.lags == {}
    backend.done = True
    play.reason_to_end(4)
    assert (notes.values, notes.lags) == ({2: 0.5}, {2: 2.0})
    play.reason_to_end(5)
    assert backend.calls == ["begin 2 [('eval', 8)]", "end 2"], "reported once"


def test_training_waits_for_the_last_evaluation_if_the_next_one_is_due(tmp_path: Path) -> None:
    backend = Evaluator()
    play, notes, _ = evaluations(tmp_path, backend)
    play.play(2)
    play.play(4)
    play.collect(5, wait=True)
    assert [call[:7] for call in backend.calls] == ["begin 2", "end 2 a", "begin 4", "end 4 a"]
    assert notes.lags == {2: 2.0, 4: 1.0} and notes.waits == [4, 5]
    play.collect(5, wait=True)
    assert notes.waits == [4, 5], "nothing is under way"


def test_a_stop_request_cancels_the_evaluation(tmp_path: Path) -> None:
    backend = Evaluator(stopped=True)
    play, notes, keeper = evaluations(tmp_path, backend)
    play.play(2)
    play.play(4)
    assert len(backend.calls) == 1 and notes.lags == {} and keeper.evaluating == 2


def test_a_checkpoint_waits_for_its_metric(tmp_path: Path) -> None:
    """Three later checkpoints are written before the best one has its metric: it is retained, and is then marked."""
    backend = Evaluator({1: 0.9, 4: 0.2})
    play, notes, keeper = evaluations(tmp_path, backend, checkpoint__keep=1)
    for iteration in range(1, 5):
        if iteration in (1, 4):
            play.play(iteration)
        keeper.save(backend, notes, iteration)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 4]
    play.play(5)
    keeper.save(backend, notes, 5)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 5]
    keeper.save(backend, notes, 6)  # type: ignore[arg-type]
    play.collect(6, wait=True)
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 6], "5 is not retained after its metric"
    assert [iteration for name, iteration, best in notes.told if best] == [1]


def test_a_resumed_run_repeats_the_evaluation_of_its_checkpoint(tmp_path: Path) -> None:
    backend = Evaluator()
    play, notes, keeper = evaluations(tmp_path, backend)
    play.play(1)
    for iteration in (1, 2):
        keeper.save(backend, notes, iteration)  # type: ignore[arg-type]
    folders = checkpoints(tmp_path / "checkpoints")
    for iteration, lost in ((1, True), (2, False)):
        _, again, resumed = evaluations(tmp_path, backend)
        resumed.recall(folders[iteration], again)  # type: ignore[arg-type]
        assert resumed.unevaluated is lost
    keeper.recall(folders[1], notes, forks=True)  # type: ignore[arg-type]
    assert not keeper.unevaluated, "a fork is evaluated in any case"


class Training(Evaluator):
    """A backend that trains on nothing; an evaluation ends `lag` iterations later."""

    def __init__(self, successes: dict[int, float], lag: int) -> None:
        super().__init__(successes)
        self.lag = lag

    def collect(self, iteration: int) -> Any:
        self.done = self.playing is not None and iteration >= self.playing + self.lag
        return Collected([facts(True)], [])

    def update(self, iteration: int) -> None:
        pass

    def publish(self, iteration: int) -> list[Any]:
        return []


class Everything(Journal):
    """A journal of whole runs."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: False


@pytest.mark.parametrize(
    ("every", "lag", "patience", "end"),
    [(1, 1, 2, 4), (1, 9, 2, 4), (2, 1, 2, 7), (2, 9, 2, 8), (1, 1, 0, 9)],
)
def test_early_stopping_counts_evaluations_when_they_arrive(
    tmp_path: Path, every: int, lag: int, patience: int, end: int
) -> None:
    """The first one is the best (step 0 does not count), so with a patience of two the third one ends the run when its metric
    has arrived: if it takes longer than an interval, when the next one is due.
    """
    backend = Training({0: 1.0, every: 0.9} | dict.fromkeys(range(every + 1, 10), 0.3), lag)
    overrides = {"run__early_stopping": patience, "evaluation__every": every, "checkpoint__keep": 9}
    config = small_config(Path("m"), **BESIDE | {"run__iterations": 9} | overrides)
    notes: Any = Everything()
    keeper = CheckpointKeeper(config, RunFolder(tmp_path))
    outcome = iterate(Run(config, backend, notes, keeper, lambda: None), 0, Started({}))  # type: ignore[arg-type]
    assert (outcome.state, outcome.iterations, bool(outcome.reason)) == ("finished", end, bool(patience))
    assert backend.playing is None, "the last evaluation is awaited"
    assert set(notes.lags) == {0, *range(every, end + 1, every), *([9] if end == 9 else [])}
    assert [iteration for _, iteration, best in notes.told if best] == [every]


def test_the_waits_of_an_iteration_add_up() -> None:
    """The last iteration waits for the evaluation before it, and for its own."""
    run_events = RunEvents(small_config(Path("m"), **BESIDE), Mock(), Mock())
    for iteration, seconds in ((4, 1.0), (5, 2.0), (5, 3.0)):
        run_events.waited(iteration, seconds)
    assert run_events.measured("time/wait_for_evaluation", 5) == 5.0


def test_the_metrics_of_a_checkpoint_are_completed_later_and_forgotten_with_it() -> None:
    reporter = Mock()
    run_events = RunEvents(small_config(Path("m"), **BESIDE), reporter, Mock())
    run_events._metrics(1, {"train/return": 0.5, "eval/success": 0.1})
    run_events.checkpointed(1, "checkpoints/1", 9, best=False)
    run_events._metrics(2, {"train/return": 0.7})
    run_events._metrics(1, {"eval/success": 0.9})
    run_events.checkpointed(1, "checkpoints/1", 9, best=True)
    assert reporter.checkpoint.call_args.args[3] == {"train/return": 0.5, "eval/success": 0.9}
    run_events.removed(1, "checkpoints/1")
    assert run_events._headlines == {}


def test_an_evaluator_needs_a_process(tmp_path: Path) -> None:
    networks, inline = (
        small_networks("spread_mappo", evaluation__mode="beside"),
        small_networks("spread_mappo"),
    )
    assert demand(networks).cpus == demand(inline).cpus + 0.5
    assert run_attempt(Attempt(networks, "r", 1, tmp_path / "r", tmp_path), local=True) == 1
    (last,) = events(tmp_path / "r", "status")[-1:]
    assert last["state"] == "failed" and last["message"].startswith("evaluation.mode: ")
    assert networks.separate_seeds and not inline.separate_seeds
    for overrides in (
        {"workflow__type": "agent"},
        {"workflow__type": "rollout_buffer"},
        {"policies__planner__engine__type": "openai", "policies__planner__devices__placement": "apart"},
    ):
        with pytest.raises(ConfigError, match="evaluation.mode"):
            small_config(Path("m"), **BESIDE | overrides)
    with pytest.raises(ConfigError, match="evaluation.gpus"):
        small_config(Path("m"), **BESIDE, evaluation__gpus=2.0)
    unused = small_config(Path("m"), **BESIDE | {"evaluation__greedy": False})
    assert not any(slot.kind == "evaluator" for slot in place(unused).actor_slots), "nothing is evaluated"


def lag_of(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name.endswith("/lag")}


def evaluated(folder: Path) -> tuple[dict[Any, Any], list[Any]]:
    """Metrics and transcripts of evaluations."""
    values = {
        key: value
        for key, value in curve(folder).items()
        if key[0].startswith("eval") and "/lag" not in key[0]
    }
    return values, sorted(item for item in conversation(folder) if item[1] != "train")


@pytest.mark.ray
@pytest.mark.extended
@pytest.mark.parametrize("kind", ["language_models", "networks"])
def test_the_numbers_are_those_of_inline_evaluations(
    kind: str, ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    """Bit for bit, and of the whole run as well; two iterations apart, so that no evaluation waits."""
    overrides: dict[str, Any] = {
        "run__iterations": 5,
        "evaluation__every": 2,
        "checkpoint__every": 1,
        "checkpoint__keep": 9,
    }

    def config(mode: str) -> Any:
        settings = overrides | {"evaluation__mode": mode}
        if kind == "networks":
            return small_networks("spread_mappo", **settings, evaluation__episodes=8)
        return small_config(little_model, **settings)

    inline, background = tmp_path / "inline", tmp_path / "beside"
    assert run_attempt(Attempt(config("inline"), f"inline-{kind}", 1, inline, tmp_path), local=False) == 0
    assert (
        run_attempt(Attempt(config("beside"), f"background-{kind}", 1, background, tmp_path), local=False)
        == 0
    )
    assert evaluated(background) == evaluated(inline)
    steps = {step for name, step in curve(background) if name == "eval/return"}
    assert steps == {0, 2, 4, 5}
    ranked = {
        event["iteration"]: event["metrics"]
        for event in events(background, "checkpoint")
        if not event.get("removed")
    }
    written = {event["iteration"]: event["metrics"] for event in events(inline, "checkpoint")}
    assert all(ranked[step] == written[step] | lag_of(ranked[step]) for step in steps - {0}), (
        "and those of checkpoints"
    )
    lags = {step: value for (name, step), value in curve(background).items() if name == "eval/lag"}
    assert lags.keys() >= steps - {0}, "metrics of step 0 may be those stored with the base model"
    assert all(0 <= lag <= 2 for lag in lags.values()) and lags[5] == 0
    trained = {key: value for key, value in curve(inline).items() if not key[0].startswith("eval")}
    assert {
        key: value for key, value in curve(background).items() if not key[0].startswith("eval")
    } == trained
