"""Branches: episodes that share an opening, play on apart from a random step, and are compared and counted from there."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.training_core.llm.workflows.counting import Counting, Recorder, make_context
from training_core.errors import ConfigError
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_episodes
from training_core.llm.workflows.registry import WORKFLOWS
from training_core.types import Episode, Prompt
from workers.telemetry.metrics import episode_facts

STEPS = [(turn, role) for turn in range(2) for role in ("planner", "executor")]


def noisy(seen: str, prompt: Prompt, index: int) -> str:
    """An answer that depends on all that noise depends on."""
    key = prompt.key
    return str((7 * key.task + 3 * key.turn + 5 * key.role + 2 * index) % 17)


def play(tasks: list[int], turns: int = 2, **overrides: Any) -> tuple[list[Episode], RolloutContext]:
    settings = {
        "workflow__type": "episodes",
        "workflow__branch": "random",
        "resources__environments_per_worker": 192,
    }
    voices = {name: Recorder(noisy) for name in ("planner", "executor")}
    context = make_context(voices, Counting(turns=turns), **settings | overrides)
    return WORKFLOWS["episodes"].train(tasks, context), context


def by_task(episodes: list[Episode]) -> list[list[Episode]]:
    return [episodes[first : first + 3] for first in range(0, len(episodes), 3)]


def opening(episode: Episode) -> int:
    """Number of turns that are not compared; they come first."""
    compared = [turn.compared for turn in episode.turns]
    assert compared == sorted(compared)
    return compared.count(False)


def said(episode: Episode) -> list[tuple[str, str]]:
    return [(turn.messages[-1]["content"], turn.candidates[0].answer.text) for turn in episode.turns]


def test_siblings_share_an_opening_and_then_part() -> None:
    episodes, context = play(list(range(40)))
    for task, siblings in enumerate(by_task(episodes)):
        assert {episode.siblings for episode in siblings} == {f"3-{task}"}
        (length,) = {opening(episode) for episode in siblings}
        assert [(turn.index, turn.role) for turn in siblings[0].turns] == STEPS
        first, *others = map(said, siblings)
        assert all(other[:length] == first[:length] for other in others)
        assert all(other[length:] != first[length:] for other in others)
        assert [episode.success for episode in siblings] == [True] * 3
    assert len({episode.id for episode in episodes}) == 120
    groups = make_groups(episodes, context.config).groups
    positions = {episode.id: opening(episode) for episode in episodes}
    assert groups["planner"] and groups["executor"]
    for group in groups["planner"] + groups["executor"]:
        assert group.turn >= positions[group.episode]


def test_every_task_parts_at_a_step_that_it_reaches() -> None:
    """The config allows 5 turns, but the episodes end after 2: of 10 steps 4 are reached, and the others become one of these."""
    episodes, _ = play(list(range(400)))
    counts = Counter(opening(siblings[0]) for siblings in by_task(episodes))
    assert [counts[length] for length in range(4)] == pytest.approx([100] * 4, abs=30)


def test_what_an_opening_earns_and_samples_is_counted_once() -> None:
    """The answers of an opening and of three episodes; those of a short opening behind its step are in no turn."""
    episodes, context = play(list(range(40)))
    sampled = sum(sum(episode_facts(episode).candidates.values()) for episode in episodes)
    unused = [episode.continued_tokens // 2 for episode in episodes]
    shared = sum(
        prompt.count for role in ("planner", "executor") for prompt in context.generate[role].prompts
    )  # type: ignore[attr-defined]
    assert sampled + sum(unused) == shared
    assert sum(episode_facts(episode).tokens for episode in episodes) == 2 * shared
    assert any(unused)


def test_the_first_answers_of_siblings_are_one_prompt() -> None:
    _, context = play(list(range(12)))
    prompts = [prompt for role in ("planner", "executor") for prompt in context.generate[role].prompts]  # type: ignore[attr-defined]
    together = [prompt for prompt in prompts if prompt.count == 3]
    assert len(together) >= 12 and all(prompt.first == 0 for prompt in together)


def test_an_episode_does_not_depend_on_the_other_tasks() -> None:
    alone, _ = play([7])
    among, _ = play([3, 5, 7])
    assert list(map(said, alone)) == list(map(said, among[6:]))
    assert [opening(episode) for episode in alone] == [opening(episode) for episode in among[6:]]


def test_returns_are_those_of_whole_episodes() -> None:
    """The opening's rewards count; they are equal in all siblings, so they change no comparison."""
    episodes, _ = play([1, 2])
    for episode in episodes:
        local = [turn.candidates[0].local_reward for turn in episode.turns if turn.role == "planner"]
        assert episode.role_return("planner") == sum(local) + 1
        assert episode.team_return == 1


def test_tasks_that_cannot_begin_fail_in_all_their_episodes() -> None:
    voices = {name: Recorder(noisy) for name in ("planner", "executor")}
    settings = {
        "workflow__type": "episodes",
        "workflow__branch": "random",
        "resources__environments_per_worker": 192,
    }
    context = make_context(voices, Counting(breaks_at_reset=(1,), breaks_when_seen=(2,)), **settings)  # type: ignore[arg-type]
    never, dark, good = by_task(WORKFLOWS["episodes"].train([1, 2, 3], context))
    assert [episode.error for episode in never] == ["OSError: no such task"] * 3
    assert all(episode.failed and len(episode.turns) == 2 for episode in dark)
    assert not any(episode.failed for episode in good)


def test_without_branches_episodes_are_as_before() -> None:
    episodes, context = play([1, 2], workflow__branch="none")
    voices = {name: Recorder(noisy) for name in ("planner", "executor")}
    again = play_episodes([1, 2], replace(context, generate=voices))
    assert list(map(said, episodes)) == list(map(said, again))
    assert not any(opening(episode) or episode.copied_turns for episode in episodes)


def test_one_episode_of_a_task_has_no_branches() -> None:
    with pytest.raises(ConfigError, match="branch"):
        play([1], rollout__group_size=1, algorithm__type="reinforce_plus_plus")
