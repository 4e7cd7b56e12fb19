"""Continuations: what they earn by hand, their noise, and states that stay as they are."""

from dataclasses import replace

import pytest

from tests.training_core.llm.workflows.counting import Counting, Recorder, make_context
from training_core.llm.environments.host import Source
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.continuation import Start, continue_states
from training_core.llm.workflows.lockstep import Point
from training_core.types import Episode, Prompt


def by_index(seen: str, prompt: Prompt, index: int) -> str:
    """Answer 1 of the first continuation, 2 of the second, ..."""
    return str(1 + index)


def default_context(turns: int = 3, **overrides: object) -> RolloutContext:
    voices = {name: Recorder(by_index) for name in ("planner", "executor")}
    return make_context(voices, Counting(turns=turns), **overrides)


def tried(context: RolloutContext, *answers: str) -> list[Start]:
    """The planner's answers in the first turn of task 1 (total 100), in slot 0."""
    context.pool.reset({0: (1, "train")})
    context.pool.try_answers({0: list(answers)}, "planner")
    return [Start(Source(0, index), (1, 0, 0, index)) for index in range(len(answers))]


def totals(episode: Episode) -> list[int]:
    return [int(turn.messages[-1]["content"].split()[-1]) for turn in episode.turns]


def test_continuations_play_to_the_end_and_count_what_follows() -> None:
    """The second continuation of 100 + 7: -2, then twice +2 and -2. The team earns 1 for the last of three turns."""
    context = default_context()
    starts = tried(context, "7", "4")
    whole = continue_states(starts, Point(0, 0), context, count=2, first_slot=10)
    assert [[totals(episode) for episode in own] for own in whole] == [
        [[107, 106, 107, 106, 107], [107, 105, 107, 105, 107]],
        [[104, 103, 104, 103, 104], [104, 102, 104, 102, 104]],
    ]
    episode = whole[0][1]
    assert (episode.team_return, episode.success, episode.turns[-1].index) == (1.0, True, 2)
    assert episode.role_return("planner") == 107 + 107 + 1
    assert episode.role_return("executor") == 105 + 105 + 105 + 1


@pytest.mark.parametrize(("turns", "played"), [(1, 1), (2, 3), (3, 5), (9, 5)])
def test_a_horizon_counts_the_turn_of_the_answer(turns: int, played: int) -> None:
    context = default_context()
    ((episode,),) = continue_states(
        tried(context, "7"), Point(0, 0), context, count=1, first_slot=1, turns=turns
    )
    assert len(episode.turns) == played
    assert bool(episode.ended) == (turns >= 3)


def test_a_horizon_that_ends_with_the_answer_plays_nothing() -> None:
    context = default_context()
    context.pool.reset({0: (1, "train")})
    start = Start(Source(0), (1, 0, 1, 0))
    ((episode,),) = continue_states([start], Point(0, 1), context, count=1, first_slot=1, turns=1)
    assert (episode.turns, episode.team_return) == ([], 0.0)


def test_the_continued_state_stays_as_it_is() -> None:
    context = default_context()
    starts = tried(context, "7", "4")
    before = context.pool.observe([0], "executor")
    continue_states(starts, Point(0, 0), context, count=3, first_slot=1)
    assert context.pool.observe([0], "executor") == before
    context.pool.commit({0: 1})
    assert context.pool.observe([0], "executor")[0].observation == "train task 1 total 104"


def test_equal_prompts_of_a_state_are_one_prompt_with_noise_of_its_own() -> None:
    """Answers depend on the key and on the number of the continuation alone, not on which prompts are sent together."""
    context = default_context(turns=1)
    starts = tried(context, "7", "7")
    continue_states(starts, Point(0, 0), context, count=3, first_slot=1)
    prompts = context.generate["executor"].prompts  # type: ignore[attr-defined]
    assert [(prompt.count, prompt.first) for prompt in prompts] == [(3, 0), (3, 0)]
    assert prompts[0].key != prompts[1].key and prompts[0].key.stream == prompts[1].key.stream == 7


def test_later_prompts_differ_and_keep_their_numbers() -> None:
    context = default_context(turns=2)
    continue_states(tried(context, "7"), Point(0, 0), context, count=3, first_slot=1)
    prompts = context.generate["planner"].prompts  # type: ignore[attr-defined]
    assert [(prompt.count, prompt.first, prompt.key.turn) for prompt in prompts] == [
        (1, n, 1) for n in range(3)
    ]


def test_the_team_is_paid_whatever_the_run_pays() -> None:
    context = default_context(turns=1, algorithm__team_reward_to="speaker")
    ((episode,),) = continue_states(tried(context, "7"), Point(0, 0), context, count=1, first_slot=1)
    assert episode.role_return("planner") == 1.0


def test_a_continuation_that_breaks_fails_alone() -> None:
    voices = {
        name: Recorder(lambda seen, prompt, index: "boom" if index else "1")
        for name in ("planner", "executor")
    }
    context = make_context(voices, Counting(turns=2))
    ((good, bad),) = continue_states(tried(context, "7"), Point(0, 0), context, count=2, first_slot=1)
    assert (good.failed, good.success, bad.failed) == (False, True, True)


def test_answers_of_the_same_step_are_executed_first() -> None:
    """In a parallel step the planner's +7 is followed by the executor's answer of that step, which every continuation has."""
    from training_core.llm.workflows.context import begin_turn, generate_answers
    from training_core.llm.workflows.episodes import sampling_settings
    from training_core.types import NoiseKey

    context = default_context(turns=2, team__parallel=("planner", "executor"))
    context.pool.reset({0: (1, "train")})
    settings = sampling_settings(context.config, "executor", "train")
    turn, _ = begin_turn(context, "executor", {0: NoiseKey(0, 0, 0, 1, 0, 1)}, 3, settings, None)
    generate_answers(context, [turn])
    context.pool.try_answers({0: ["7"]}, "planner")
    start = Start(Source(0, 0), (1, 0, 0, 0))
    ((one, two),) = continue_states([start], Point(0, 0), context, count=2, first_slot=1, waiting=[turn])
    # 100 + 7 - 1, then both see that and say 1 or 2: +1 - 1, +2 - 2
    assert [turn.candidates[0].local_reward for turn in one.turns] == [106, 107, 106]
    assert [turn.candidates[0].local_reward for turn in two.turns] == [106, 108, 106]
    assert replace(one.turns[0], messages=[]) == replace(two.turns[0], messages=[])
