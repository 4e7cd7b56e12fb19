"""Values of candidates by hand: what the role earns from an answer on, equal answers, and what cannot be compared."""

from dataclasses import replace
from typing import Any

import pytest

from tests.training_core.llm.workflows.counting import Counting, Recorder, make_context
from training_core.errors import ConfigError
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Answer, Episode, Prompt, Turn

ROOM = {"resources__environments_per_worker": 400, "workflow__carry": "sampled"}


def planner(seen: str, prompt: Prompt, index: int) -> str:
    """Candidates add 1, 7 and 4; in a continuation it adds nothing."""
    return "0" if prompt.key.stream == 7 else ("1", "7", "4")[index]


def executor(seen: str, prompt: Prompt, index: int) -> str:
    """In a continuation the first of an answer takes away 10, the second 20."""
    return str(10 * (1 + index)) if prompt.key.stream == 7 else ("3", "2", "5")[index]


def default_context(turns: int = 2, **overrides: Any) -> RolloutContext:
    voices = {"planner": Recorder(planner), "executor": Recorder(executor)}
    settings = ROOM | {"algorithm__local_weight": 1.0, "algorithm__team_weight": 10.0}
    return make_context(voices, Counting(turns=turns), **settings | overrides)


def values(turn: Turn) -> list[float | None]:
    return [candidate.value for candidate in turn.candidates]


def test_the_value_to_the_end_of_the_turn_is_by_hand() -> None:
    """The team is paid 10 by the executor's answer in the last turn; the planner earns nothing else after its own answer."""
    (episode,) = play_turn_tree([1], default_context(workflow__value="turn"))
    first, second, third, fourth = episode.turns
    assert values(first) == [candidate.local_reward for candidate in first.candidates] == [101, 107, 104]
    assert values(third) == [candidate.local_reward + 10 for candidate in third.candidates]
    for turn in (second, fourth):  # nothing follows in the same turn
        assert values(turn) == [candidate.reward for candidate in turn.candidates]


def test_the_value_to_the_end_of_the_episode_is_by_hand() -> None:
    """Two continuations of 107: -10 +0 -10, and -20 +0 -20. The planner earns 97 and 87 in its second turn, and the team 10."""
    (episode,) = play_turn_tree([1], default_context(workflow__value="return", workflow__continuations=2))
    first = episode.turns[0]
    assert values(first) == [2 * base - 15 + 10 for base in (101, 107, 104)]
    assert [candidate.reward for candidate in first.candidates] == [101, 107, 104]
    # the executor's answer leaves s; the planner adds 0; in the continuations it takes 10 or 20 away: s - 15 on average
    assert values(episode.turns[1]) == [2 * c.local_reward - 15 + 10 for c in episode.turns[1].candidates]
    assert episode.continued_tokens == 2 * (2 * 3 * 3 + 2 * 3 * 2 + 2 * 3 * 1)


def test_a_horizon_limits_the_turns() -> None:
    whole, two, one = (
        play_turn_tree([1], default_context(3, workflow__value="return", workflow__horizon=turns))[0]
        for turns in (0, 2, 1)
    )
    # 107 - 10 = 97, 97 - 10 = 87, then 10 for the team
    assert values(whole.turns[0])[1] == 107 + 97 + 87 + 10
    assert values(two.turns[0])[1] == 107 + 97
    assert values(one.turns[0])[1] == 107


def test_groups_compare_values_and_returns_count_rewards() -> None:
    context = default_context(1, workflow__value="turn", workflow__continuations=2)
    (episode,) = play_turn_tree([1], context)
    batch = make_groups([episode], context.config)
    (group,) = batch.groups["planner"]
    assert group.rewards == [111, 117, 114] and group.advantages == pytest.approx([-1, 1, 0], abs=1e-5)
    executed = episode.turns[0].candidates[episode.turns[0].executed]
    assert episode.role_return("planner") == executed.local_reward + 10


def test_equal_answers_share_their_continuations() -> None:
    """Without sharing, noise would give equal answers different values."""

    def noisy(seen: str, prompt: Prompt, index: int) -> str:
        return str(prompt.key.task % 50 + index)

    voices = {"planner": Recorder(lambda seen, prompt, index: "474"[index]), "executor": Recorder(noisy)}
    settings = ROOM | {"workflow__value": "return", "workflow__continuations": 2}
    context = make_context(voices, Counting(turns=2), **settings)  # type: ignore[arg-type]
    first = play_turn_tree([1], context)[0].turns[0]
    assert values(first)[0] == values(first)[2]
    continued = [
        prompt for prompt in voices["executor"].prompts if prompt.key.stream == 7 and prompt.key.turn == 0
    ]
    assert [prompt.count for prompt in continued] == [2, 2]


def test_roles_that_speak_at_once_are_continued_with_the_others_first_answer() -> None:
    parallel = ("planner", "executor")
    context = default_context(1, workflow__value="turn", team__parallel=parallel)
    (episode,) = play_turn_tree([1], context)
    assert values(episode.turns[0]) == [101 + 10, 107 + 10, 104 + 10]
    executors = [prompt for prompt in context.generate["executor"].prompts if prompt.key.stream == 7]  # type: ignore[attr-defined]
    assert executors == [], "its answers of this step are known"


def test_groups_that_straddle_a_publication_are_left_out() -> None:
    """New weights arrive between the executor's answers in the continuations of task 2's first planner turn."""

    class Published(Recorder):
        def __call__(self, prompts: list[Prompt], settings: Any) -> list[list[Answer]]:
            return [
                [
                    replace(answer, versions=[version for _ in answer.versions])
                    for number, answer in enumerate(answers)
                    for version in [int("200" in seen and prompt.key.stream == 7 and number > 0)]
                ]
                for prompt, answers, seen in zip(
                    prompts, super().__call__(prompts, settings), self.seen[-len(prompts) :], strict=True
                )
            ]

    def plan(seen: str, prompt: Prompt, index: int) -> str:
        return ("0", "7", "4")[index]

    voices = {"planner": Recorder(plan), "executor": Published(executor)}
    settings = ROOM | {"workflow__value": "turn", "workflow__continuations": 2}
    context = make_context(voices, Counting(turns=1), **settings)  # type: ignore[arg-type]
    episodes = play_turn_tree([1, 2], context)
    assert [[turn.compared for turn in episode.turns] for episode in episodes] == [
        [True, True],
        [False, True],
    ]
    assert [episode.lost_groups for episode in episodes] == [0, 1]
    batch = make_groups(episodes, context.config)
    assert [group.episode for group in batch.groups["planner"]] == [episodes[0].id]
    assert {candidate.advantage for candidate in episodes[1].turns[0].candidates} == {0.0}


def test_a_group_whose_continuations_fail_is_left_out() -> None:
    def breaks(seen: str, prompt: Prompt, index: int) -> str:
        return "boom" if prompt.key.stream == 7 and "total 207" in seen else "3"

    voices = {"planner": Recorder(planner), "executor": Recorder(breaks)}
    context = make_context(voices, Counting(turns=1), **ROOM | {"workflow__value": "turn"})  # type: ignore[arg-type]
    good, bad = play_turn_tree([1, 2], context)
    assert (bad.failed, bad.lost_groups, bad.turns[0].compared, good.turns[0].compared) == (
        False,
        1,
        False,
        True,
    )


def test_values_do_not_depend_on_which_tasks_are_played_together() -> None:
    def of(tasks: list[int]) -> Episode:
        def noisy(seen: str, prompt: Prompt, index: int) -> str:
            return str((prompt.key.task + prompt.key.turn + index) % 50)

        voices = {name: Recorder(noisy) for name in ("planner", "executor")}
        settings = ROOM | {"workflow__value": "return", "workflow__continuations": 3}
        context = make_context(voices, **settings)  # type: ignore[arg-type]
        return play_turn_tree(tasks, context)[-1]

    alone, among = of([7]), of([1, 2, 7])
    assert [values(turn) for turn in alone.turns] == [values(turn) for turn in among.turns]


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"carry": "best", "value": "turn"}, "carry"),
        ({"continuations": 2}, "continuations"),
        ({"horizon": 2}, "horizon"),
        ({"value": "turn", "horizon": 2}, "horizon"),
    ],
)
def test_settings_that_values_do_not_use_are_refused(overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        make_context(
            {}, **{f"workflow__{name}": value for name, value in ({"carry": "sampled"} | overrides).items()}
        )


def test_continuations_need_environments_of_their_own() -> None:
    """48 tasks with 1 + 3 x 2 states each."""
    settings = {"workflow__value": "turn", "workflow__continuations": 2, "resources__environment_workers": 2}
    with pytest.raises(ConfigError, match="raise it to 168"):
        make_context({}, resources__environments_per_worker=167, workflow__carry="sampled", **settings)
    config = default_context(**settings).config
    assert config.training_slots == 48 * 7
    # 5 turns: the executor's answers after the planner's; with returns also both in the turns ahead: 4 + 3 + 2 + 1
    assert config.continued_answers == {"planner": 0, "executor": 48 * 3 * 2 * 5}
    longer = default_context(**settings | {"workflow__value": "return"}).config
    assert longer.continued_answers == {"planner": 48 * 6 * 20, "executor": 48 * 6 * 25}
    limited = default_context(**settings | {"workflow__value": "return", "workflow__horizon": 2}).config
    assert limited.continued_answers == {"planner": 48 * 6 * 8, "executor": 48 * 6 * 13}
