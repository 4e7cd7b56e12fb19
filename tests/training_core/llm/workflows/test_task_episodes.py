"""K episodes of each training task, one of each held-out task, and their play at the same time."""

import asyncio

from tests.training_core.llm.workflows.counting import config, make_context
from training_core.config.rollout import Agent
from training_core.event_loop import in_process_loop
from training_core.llm.workflows.task_episodes import complete, play_concurrently, task_episodes
from training_core.seeding import NoiseStream
from training_core.types import Episode

ENDS = {2: RuntimeError("the tool is down"), 3: SystemExit(3), 4: asyncio.CancelledError()}
STREAMS = NoiseStream.AGENTS, NoiseStream.AGENT_EVALUATION


def test_a_training_task_has_siblings_with_different_noise() -> None:
    context = make_context({}, run__seed=7)
    items = task_episodes([4, 5], context, "train", STREAMS)
    assert [(item.episode.siblings, item.episode.task, item.noise) for item in items] == [
        ("3-4", "train-4", (7, 3, 3, 12)), ("3-4", "train-4", (7, 3, 3, 13)), ("3-4", "train-4", (7, 3, 3, 14)),
        ("3-5", "train-5", (7, 3, 3, 15)), ("3-5", "train-5", (7, 3, 3, 16)), ("3-5", "train-5", (7, 3, 3, 17)),
    ]  # fmt: skip
    assert [item.episode.id for item in items] == [f"1-3-train-{number}" for number in range(12, 18)]
    assert items[0].data["observations"] == dict.fromkeys(("planner", "executor"), "train task 4 total 400")
    items[0].data["messages"].clear()
    assert items[1].data["messages"], "a program that changes its data changes no sibling's"


def test_a_held_out_task_is_played_once_with_fixed_noise() -> None:
    context = make_context({}, run__seed=7, evaluation__probes=1)
    items = task_episodes([0, 1], context, "eval", STREAMS)
    assert [(item.episode.task, item.episode.probe, item.noise) for item in items] == [
        ("eval-0", True, (0, 4, 0, 0)),
        ("eval-1", False, (0, 4, 0, 1)),
    ]
    assert [item.episode.siblings for item in items] == ["", ""]


def test_an_error_or_a_timeout_fails_only_its_own_episode() -> None:
    running: list[int] = []
    most: list[int] = []
    failures: dict[int, str] = {}

    async def play(number: int) -> None:
        running.append(number)
        most.append(len(running))
        try:
            await asyncio.sleep(60 if number == 1 else 0)
            if number in ENDS:
                raise ENDS[number]
        finally:
            running.remove(number)

    section = Agent(concurrency=2, timeout=0.2)
    asyncio.run(in_process_loop(play_concurrently(range(6), play, failures.__setitem__, section)))
    assert failures == {
        1: "the episode took longer than workflow.timeout = 0.2 seconds",
        2: "RuntimeError: the tool is down",
        3: "SystemExit: 3",
        4: "its program cancelled itself",
    }
    assert max(most) == 2 and not running


def test_a_failed_episode_states_its_error() -> None:
    episodes = [Episode(str(number), 0, "train", "", "") for number in range(2)]
    episodes[1].fail("no answer")
    assert complete(episodes, config()) == episodes
    assert (episodes[1].failed, episodes[1].error, episodes[1].outcome) == (
        True,
        "no answer",
        "failed: no answer",
    )
    assert not episodes[0].failed
