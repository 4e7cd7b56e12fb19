"""Play ahead of the update: the synchronous loop's numbers at staleness 0; bounded, whole and resumable above."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.workers.driver.builders import turn
from tests.workers.running import conversation, curve, events, small_config
from training_core.checkpoints import latest, read_state
from training_core.errors import ConfigError, EngineFailure
from training_core.types import Episode, Prompt
from workers.actors.player import Played, Player
from workers.actors.policy_workers import RolloutWorker
from workers.actors.rollouts import Collector
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt
from workers.reporting.reporter import Reporter

APART = {"policies__planner__devices__placement": "apart", "policies__executor__devices__placement": "apart"}


def attempt(
    folder: Path, model: Path, number: int = 1, resume_from: Path | None = None, **overrides: Any
) -> Attempt:
    config = small_config(model, **APART, **overrides)
    return Attempt(config, "r", number, folder, folder.parent, resume_from)


@pytest.mark.slow
@pytest.mark.parametrize("waves", [{}, {"rollout__wave": 2}], ids=["one-wave", "three-waves"])
def test_without_staleness_it_is_the_synchronous_loop_number_for_number(
    waves: dict[str, Any], little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "synchronous", tmp_path / "asynchronous"
    assert run_attempt(attempt(here, little_model, run__iterations=3), local=True) == 0
    monkeypatch.setattr("workers.driver.loop.plays_ahead", lambda config: True)
    assert run_attempt(attempt(there, little_model, run__iterations=3, **waves), local=True) == 0
    expected, found = curve(here), curve(there)
    extra = {"rollout/rejected", "rollout/waiting"}
    assert {name for name, _ in found.keys() - expected.keys()} == extra
    assert len(expected) > 100
    if waves:  # batches of another shape: equal but for the last bit
        off = {
            k: (v, found[k]) for k, v in expected.items() if found[k] != pytest.approx(v, rel=1e-4, abs=1e-5)
        }
        assert not off
    else:
        assert {key: found[key] for key in expected} == expected
    assert conversation(there) == conversation(here)


@pytest.mark.slow
def test_data_is_within_the_staleness_bound(little_model: Path, tmp_path: Path) -> None:
    told = attempt(tmp_path, little_model, run__iterations=6, rollout__staleness=2, rollout__wave=3)
    assert run_attempt(told, local=True) == 0
    ages = []
    for event in events(tmp_path, "episode"):
        if event["kind"] == "train":
            updated = event["iteration"] - 1  # the version that its update improved
            versions = [
                version
                for turn in event["turns"]
                for candidate in turn["candidates"]
                for version in candidate["versions"]
            ]
            assert all(updated - 2 <= version <= updated for version in versions)
            ages.append(updated - min(versions))
    assert len(ages) == 6 * 6
    assert max(ages) > 0, "play never ran ahead"
    staleness = [value for (name, _), value in curve(tmp_path).items() if name == "rollout/staleness"]
    assert len(staleness) == 6 and max(staleness) > 0
    assert all(value <= 2 for value in staleness)
    assert curve(tmp_path)["progress/episodes", 6] == 36, "six tasks an iteration, none twice"
    tasks = [event["episode"] for event in events(tmp_path, "episode") if event["kind"] == "train"]
    assert len(set(tasks)) == len(tasks)


@pytest.mark.extended
def test_a_resumed_run_replays_begun_tasks(little_model: Path, tmp_path: Path) -> None:
    ahead = {"run__iterations": 5, "rollout__staleness": 1}
    assert run_attempt(attempt(tmp_path, little_model, **ahead), local=True) == 0
    middle = tmp_path / "checkpoints" / "iteration-000003"
    assert run_attempt(attempt(tmp_path, little_model, 2, middle, **ahead), local=True) == 0
    learnt = {
        (event["iteration"], item["episode"].split("-", 1)[1])
        for number in (1, 2)
        for event in events(tmp_path, "batch", number)
        for item in event["episodes"]
    }
    again = {item for item in learnt if item[0] > 3}
    assert {name for _, name in again} == {f"{i}-train-{slot}" for i in (4, 5) for slot in range(6)}
    assert [event["state"] for event in events(tmp_path, "status", 2)] == ["starting", "running", "finished"]


def test_a_colocated_policy_cannot_generate_with_older_weights(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'devices.placement: "colocated" generates and updates in turn.* set "apart"'
    ):
        small_config(tmp_path, rollout__staleness=1)
    with pytest.raises(ConfigError, match="rollout.publish_every at its default"):
        small_config(tmp_path, rollout__publish_every=2)


def test_weights_may_be_published_every_other_update(little_model: Path, tmp_path: Path) -> None:
    told = attempt(
        tmp_path,
        little_model,
        run__iterations=4,
        rollout__publish_every=2,
        evaluation__every=0,
        checkpoint__every=0,
    )
    assert run_attempt(told, local=True) == 0
    seen = [(event["iteration"], event["versions"]["planner"]) for event in events(tmp_path, "episode")]
    assert dict(seen) == {1: 0, 2: 0, 3: 1, 4: 1}


@pytest.mark.extended
@pytest.mark.parametrize("workflow", ["episodes", "multi_turn"])
def test_whole_episodes_as_candidates_stay_with_their_siblings(
    workflow: str, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {
        "workflow__type": workflow,
        "resources__environments_per_worker": 12,
        "reporting__episodes_per_iteration": 24,
    }
    here, there = tmp_path / "synchronous", tmp_path / "asynchronous"
    assert run_attempt(attempt(here, little_model, **whole), local=True) == 0
    monkeypatch.setattr("workers.driver.loop.plays_ahead", lambda config: True)
    waves = {"rollout__wave": 2, "rollout__max_concurrent": 6}
    assert run_attempt(attempt(there, little_model, **whole, **waves), local=True) == 0
    assert conversation(there) == conversation(here)
    names = [[event["episode"] for event in events(folder, "episode")] for folder in (here, there)]
    assert names[0] == names[1]


@pytest.mark.parametrize(("command", "state"), [("stop", "stopped"), ("pause", "paused")])
def test_a_command_after_the_iteration_ends_running_waves(
    command: str, state: str, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporter, "command", command)
    told = attempt(tmp_path, little_model, run__iterations=9, rollout__staleness=3, evaluation__every=0)
    assert run_attempt(told, local=True) == 0
    assert [(event["state"], event["iteration"]) for event in events(tmp_path, "status")][-1] == (state, 1)
    assert latest(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "iteration-000001"
    kept = read_state(tmp_path / "checkpoints" / "iteration-000001")["admission"]
    assert kept["accepted"] == 6 and kept["next"] >= 6
    assert set(kept["again"]) == set(range(6, kept["next"]))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("wave-")]


def test_a_failure_in_the_background_ends_the_attempt(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = RolloutWorker.generate

    def fail_later(self: RolloutWorker, prompts: list[Prompt], settings: Any, version: int) -> Any:
        if version >= 2:
            raise EngineFailure("the engine stalled")
        return say(self, prompts, settings, version)

    monkeypatch.setattr(RolloutWorker, "generate", fail_later)
    told = attempt(tmp_path, little_model, run__iterations=9, rollout__staleness=1, evaluation__every=0)
    assert run_attempt(told, local=True) == FAILED
    last = events(tmp_path, "status")[-1]
    assert (last["state"], last["message"]) == ("failed", "The engine stalled.")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("wave-")]


class Scripted(Player):
    """Plays at once; every token is of the version that was current when its wave began."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.played = threading.Event()

    def train(self, iteration: int, tasks: Any, version: Any, **places: Any) -> Played:
        self.begun.append(list(tasks))
        self.played.set()
        now = version("planner")
        turns = {task: [turn("planner", [0.0, 1.0], 1, version=now)] for task in tasks}
        made = [Episode(f"{task}", iteration, "train", f"t-{task}", "", turns[task]) for task in tasks]
        return Played(made, [])


def collecting(model: Path, player: Player, **overrides: Any) -> Collector:
    fields = {"rollout__staleness": 1, "run__iterations": 5, **overrides}
    return Collector(small_config(model, **APART, **fields), player)


def test_too_old_finished_tasks_are_replaced(tmp_path: Path) -> None:
    player = Scripted()
    collector = collecting(tmp_path, player)
    collector.start(0, {"planner": 0, "executor": 0}, None)
    first = collector.take()
    assert (first.ahead.rejected, len(first.episodes)) == (0, 6)
    while len(player.begun) < 2 or not collector.waiting:  # tasks 6 to 11 are played ahead
        player.played.wait(0.01)
    collector.published(1, {"planner": 2, "executor": 2})  # they are two versions old now
    second = collector.take()
    assert second.ahead.rejected == 6
    assert [episode.id for episode in second.episodes] == ["12", "13", "14", "15", "16", "17"]
    assert second.ahead.admission["accepted"] == 12 and second.ahead.admission["again"][:1] != [6]
    collector.close()


@pytest.mark.extended
def test_custom_agents_can_play_ahead(little_model: Path, tmp_path: Path) -> None:
    told = attempt(
        tmp_path,
        little_model,
        run__iterations=3,
        evaluation__every=0,
        workflow__type="agent",
        workflow__path="tests.workers.gateway.agents:Upwards",
        resources__environments_per_worker=24,
        rollout__staleness=1,
        rollout__wave=3,
    )
    assert run_attempt(told, local=True) == 0
    learnt = [event["episodes"] for event in events(tmp_path, "batch")]
    assert [len(episodes) for episodes in learnt] == [24, 24, 24]
    names = {item["episode"] for episodes in learnt for item in episodes}
    assert len(names) == 72 and not any(item["failed"] for episodes in learnt for item in episodes)
    assert all(item["staleness"] in (0, 1) for episodes in learnt for item in episodes)
