"""Who speaks when: roles that act in parallel, that skip turns, that pass, and a team of three."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from tests.training_core.llm.scripted import ScriptedEngine
from tests.training_core.llm.workflows.counting import (
    TOKENIZER,
    Counting,
    CountingEnvironment,
    Recorder,
    make_context,
)
from training_core.config.base import EnvironmentSection
from training_core.config.files import load_config
from training_core.config.team import Speaks
from training_core.errors import ConfigError, EngineFailure
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.environments.base import StepResult
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.environments.plan_path.game import PlanPathTrio, PlanPathTrioEnvironment
from training_core.llm.environments.registry import ENVIRONMENTS, EnvironmentKind
from training_core.llm.generation.base import NO_ROOM, SamplingSettings
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_episodes, play_independent
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Answer, Episode, Prompt
from workers.telemetry.metrics import rewards_by_role

BOTH = ("planner", "executor")


def says(*candidates: str) -> Recorder:
    return Recorder(lambda seen, prompt, index: candidates[index % len(candidates)])


def default_context(
    section: Counting | None = None, **overrides: Any
) -> tuple[RolloutContext, Recorder, Recorder]:
    """The planner's candidates add 1, 7, 4 (7 is best), the executor's take away 3, 2, 5 (2 is best)."""
    planner, executor = says("1", "7", "4"), says("3", "2", "5")
    return make_context({"planner": planner, "executor": executor}, section, **overrides), planner, executor


def spoken(episode: Episode) -> list[tuple[int, str]]:
    return [(turn.index, turn.role) for turn in episode.turns]


def test_roles_in_parallel_see_the_same_state_and_are_applied_in_order() -> None:
    context, planner, executor = default_context(team__parallel=BOTH)
    episode = play_turn_tree([1], context)[0]
    assert executor.seen == planner.seen == ["train task 1 total 100", "train task 1 total 105"]
    # the executor's candidates are tried on the state that the planner's best left: 107 less 3, 2, 5
    assert [candidate.local_reward for candidate in episode.turns[1].candidates] == [104, 105, 102]
    assert (spoken(episode), episode.final_board) == (
        [(0, "planner"), (0, "executor"), (1, "planner"), (1, "executor")],
        {"total": 110},
    )
    assert [stage.start for stage in episode.stages] == sorted(stage.start for stage in episode.stages)
    assert all(
        one.end <= other.start for one, other in zip(episode.stages, episode.stages[1:], strict=False)
    ), "stretches of an episode's time never overlap"


def test_parallel_groups_of_one_state_have_a_group_each() -> None:
    context, _, _ = default_context(team__parallel=BOTH)
    groups = make_groups(play_turn_tree([1], context), context.config).groups
    # unbiased std of 101, 107, 104 and of 104, 105, 102: 3 and 1.5275
    assert groups["planner"][0].advantages == pytest.approx([-1.0, 1.0, 0.0], abs=1e-5)
    assert groups["executor"][0].advantages == pytest.approx([0.2182, 0.8729, -1.0911], abs=1e-3)


def test_an_answer_that_comes_after_the_end_does_not_count() -> None:
    context, planner, executor = default_context(
        Counting(turns=1), team__parallel=BOTH, team__turn_order=("executor", "planner")
    )
    episode = play_turn_tree([1], context)[0]
    assert (len(planner.seen), len(executor.seen)) == (1, 1)
    assert (spoken(episode), episode.success) == ([(0, "executor")], True)


def test_only_neighbours_in_the_turn_order_act_at_once() -> None:
    order = ("planner", "executor", "executor", "planner")
    team = load_config("plan_path_duo", {"team.parallel": BOTH, "team.turn_order": order}).team
    assert team.steps == (((0, "planner"), (1, "executor")), ((2, "executor"), (3, "planner")))
    assert load_config("plan_path_duo").team.steps == (((0, "planner"),), ((1, "executor"),))


def test_turns_in_which_a_role_speaks() -> None:
    def turns(**rule: int) -> list[int]:
        return [number for number in range(1, 9) if Speaks(**rule).in_turn(number)]

    assert turns() == list(range(1, 9))
    assert turns(first=3) == [3, 4, 5, 6, 7, 8]
    assert turns(last=2) == [1, 2]
    assert turns(every=3) == [1, 4, 7]
    assert turns(first=2, every=2, last=6) == [2, 4, 6]


def test_a_role_is_skipped_in_turns_in_which_it_is_silent() -> None:
    context, planner, _ = default_context(
        Counting(turns=4), team__roles__planner__speaks={"first": 2, "every": 2}
    )
    episode = play_turn_tree([1], context)[0]
    assert spoken(episode) == [
        (0, "executor"), (1, "planner"), (1, "executor"), (2, "executor"), (3, "planner"), (3, "executor"),
    ]  # fmt: skip
    assert planner.seen == ["train task 1 total 98", "train task 1 total 101"]
    assert [prompt.key.turn for prompt in planner.prompts] == [1, 3], (
        "noise is keyed by the turn, not by the count"
    )


class Chooses(CountingEnvironment):
    """The environment says whose turn it is: the planner's while the total is even."""

    def observe(self, role: str) -> str | None:  # type: ignore[override]
        even = self.total % 2 == 0
        return super().observe(role) if even == (role == "planner") else None


def test_the_environment_says_whose_turn_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "counting", EnvironmentKind(EnvironmentSection, Chooses))
    planner, executor = says("3", "2"), says("1", "3")
    voices = {"planner": planner, "executor": executor}
    first, second = play_turn_tree([1, 2], make_context(voices, Counting(turns=2), rollout__group_size=2))
    # 100 +3 -> 103 (odd: the executor) -1 -> 102; the same again: +3 -1
    assert spoken(first) == [(0, "planner"), (0, "executor"), (1, "planner"), (1, "executor")]
    assert second.final_board == {"total": 204}
    other = make_context(
        {"planner": says("2", "2"), "executor": says("1", "1")}, Counting(turns=2), rollout__group_size=2
    )
    stuck = [200, 202]
    monkeypatch.setattr(Chooses, "done", property(lambda self: self.turns >= 2 or self.total >= 206))
    episode = play_turn_tree([2], other)[0]
    # the total stays even: the executor is never asked
    assert [int(turn.messages[-1]["content"].split()[-1]) for turn in episode.turns] == [*stuck, 204]
    assert {turn.role for turn in episode.turns} == {"planner"}


def test_an_environment_in_which_it_is_nobodys_turn_fails_its_episode_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mute(CountingEnvironment):
        def observe(self, role: str) -> str | None:  # type: ignore[override]
            return None if self.task == 2 else super().observe(role)

    monkeypatch.setitem(ENVIRONMENTS, "counting", EnvironmentKind(EnvironmentSection, Mute))
    context, _, _ = default_context()
    good, stuck = play_turn_tree([1, 2], context)
    assert good.success and len(good.turns) == 4
    assert (
        stuck.failed and stuck.error == "no role can speak: observe() returned None for every role in turn 1"
    )


def test_a_role_that_may_pass_says_nothing_with_an_empty_answer() -> None:
    planner, executor = says("", "7", "4"), says("3")
    voices = {"planner": planner, "executor": executor}
    context = make_context(voices, Counting(turns=1), team__roles__planner__may_pass=True)
    episode = play_turn_tree([1], context)[0]
    assert [candidate.local_reward for candidate in episode.turns[0].candidates] == [0, 107, 104]
    silent = make_context(
        {"planner": says(""), "executor": says("3")}, Counting(turns=1), team__roles__planner__may_pass=True
    )
    assert play_turn_tree([1], silent)[0].final_board == {"total": 97}
    refused = play_turn_tree([1], make_context({"planner": says(""), "executor": says("3")}))[0]
    assert refused.error.startswith("ValueError"), (
        "without it the environment is told, and this one wants a number"
    )


def test_an_episode_ends_after_max_turns_even_if_roles_were_skipped() -> None:
    """plan_path counts what the executor does; here it falls silent after the second turn of five."""
    config = load_config("plan_path_duo", {"team.roles.executor.speaks.last": 2, "environment.size": 6})
    words = word_tokenizer(("north", "up", "planner", "executor"))
    voices = {
        "planner": ScriptedEngine(words, lambda seen, prompt, index: "north").generate,
        "executor": ScriptedEngine(words, lambda seen, prompt, index: "north").generate,
    }
    pool = EnvironmentHost(config.environment, 0)
    ids = dict.fromkeys(voices, lambda messages: [0])
    episode = play_turn_tree([0], RolloutContext(config, pool, voices, ids, attempt=1, iteration=1))[0]
    assert [turn.role for turn in episode.turns] == ["planner", "executor"] * 2 + ["planner"] * 3
    assert (episode.outcome, episode.success, episode.failed) == ("turns used up", False, False)
    assert episode.final_board is not None


def test_each_role_has_separate_temperatures_for_training_and_evaluation() -> None:
    context, planner, executor = default_context(
        evaluation__temperature=0.5,
        team__roles__planner__sampling={"temperature": 1.5, "eval_temperature": 0.7},
        team__roles__executor__sampling={"temperature": 0.9},
    )
    play_turn_tree([1], context)
    assert {each.temperature for each in planner.settings} == {1.5}
    assert {each.temperature for each in executor.settings} == {0.9}
    planner.settings.clear()
    executor.settings.clear()
    play_independent([0], context, "eval_sampled")
    assert {each.temperature for each in planner.settings} == {0.7}
    assert {each.temperature for each in executor.settings} == {0.5}, (
        "evaluation.temperature where it has none"
    )


WRONG = [
    ({"team.parallel": ["planner", "judge"]}, "team.parallel", "names judge, which is not a role"),
    ({"team.roles.planner.speaks": {"first": 4, "last": 2}}, "team.roles.planner.speaks.last", "must not be below first = 4"),
    ({"team.roles.planner.speaks.every": 2, "team.roles.executor.speaks.first": 2},
     "team.roles.planner.speaks", "at least one role must speak in every turn"),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "path", "text"), WRONG)
def test_a_team_that_cannot_play_is_told_at_its_field(
    overrides: dict[str, object], path: str, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("plan_path_duo", overrides)
    assert text in caught.value.fields[path]


def test_three_agents_play_a_real_environment_by_hand() -> None:
    """Planner and scout at once; the executor's prompt holds the plan and the report that were carried on."""
    config = load_config("plan_path_trio", {"rollout.group_size": 2, "workflow.carry": "best"})
    seen: dict[str, list[str]] = {"planner": [], "scout": [], "executor": []}
    words = word_tokenizer(("up", "down", "left", "right", "north", "east", "none"))

    def voice(role: str, *candidates: str) -> Any:
        return ScriptedEngine(words, lambda text, prompt, index: candidates[index]).generate

    def hears(role: str) -> Any:
        def ids(messages: Any) -> list[int]:
            seen[role].append(messages[-1]["content"])
            return [0]

        return ids

    voices = {
        "planner": voice("planner", "north", "east"),
        "scout": voice("scout", "none", "up down left right"),
        "executor": voice("executor", "up", "right"),
    }
    pool = EnvironmentHost(config.environment, 0)
    episodes = play_turn_tree(
        [0, 1], RolloutContext(config, pool, voices, {r: hears(r) for r in voices}, 1, 1)
    )
    truth = PlanPathTrioEnvironment(PlanPathTrio(), 0)
    for task, episode in enumerate(episodes):
        truth.reset(task, "train")
        for turn in episode.turns:
            assert turn.messages[-1]["content"] == truth.observe(turn.role)
            for candidate in turn.candidates:
                assert (
                    truth.copy().act(turn.role, candidate.answer.text).local_reward == candidate.local_reward
                )
            truth.act(turn.role, turn.candidates[turn.executed].answer.text)
        assert [turn.role for turn in episode.turns[:3]] == ["planner", "scout", "executor"]
    groups = make_groups(episodes, config)
    assert set(groups.groups) == {"planner", "scout", "executor"}
    assert groups.counts["scout"].total == sum(
        turn.role == "scout" for each in episodes for turn in each.turns
    )


def test_parallel_policies_generate_concurrently_and_answer_the_same() -> None:
    here = play_turn_tree([1, 2], default_context(team__parallel=BOTH)[0])
    context, planner, executor = default_context(team__parallel=BOTH)
    both = Barrier(2, timeout=60.0)

    def waits(voice: Recorder) -> Callable[[list[Prompt], SamplingSettings], list[list[Answer]]]:
        def say(prompts: list[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            both.wait()  # breaks unless the other is asked meanwhile
            return voice(prompts, settings)

        return say

    voices = {"planner": waits(planner), "executor": waits(executor)}
    there = play_turn_tree([1, 2], replace(context, generate=voices, parallel_policies=True))
    assert [episode.turns for episode in there] == [episode.turns for episode in here]
    assert [episode.final_board for episode in there] == [{"total": 110}, {"total": 210}]
    for episode in there:
        pairs = zip(episode.stages, episode.stages[1:], strict=False)
        assert all(one.start <= one.end <= other.start for one, other in pairs), "no stretch is counted twice"


def test_an_error_of_one_of_several_that_speak_at_once_is_raised() -> None:
    context, planner, _ = default_context(team__parallel=BOTH)

    def fails(prompts: list[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        raise EngineFailure("out of words")

    voices = {"planner": planner, "executor": fails}
    with pytest.raises(EngineFailure, match="out of words"):
        play_turn_tree([1], replace(context, generate=voices, parallel_policies=True))


class Duel(CountingEnvironment):
    """Zero-sum: who answers wins the number of its answer from the other one. In task 9 a judge wins, who is not in the team."""

    def act(self, role: str, answer: str) -> StepResult:
        step, other = super().act(role, answer), "executor" if role == "planner" else "planner"
        loser = "judge" if self.task == 9 else other
        return replace(
            step, local_reward=0.5, team_reward=0.0, rewards={role: int(answer), loser: -int(answer)}
        )


@pytest.fixture
def _duel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "counting", EnvironmentKind(EnvironmentSection, Duel))


@pytest.mark.usefixtures("_duel")
def test_a_silent_role_is_rewarded_by_its_last_answer() -> None:
    voices = {"planner": says("4"), "executor": says("3")}
    settings = {"algorithm.local_weight": 0.5, "workflow.type": "episodes"}
    episode = play_episodes([1], make_context(voices, **settings))[0]
    # planner +4, executor +3, planner +4, executor +3; the executor loses its first 4 before it has answered
    assert [turn.candidates[0].local_reward for turn in episode.turns] == [
        0.5 + 4 - 3,
        0.5 + 3 - 4,
        0.5 + 4 - 3,
        0.5 + 3,
    ]
    assert [turn.candidates[0].reward for turn in episode.turns] == [0.75, -0.25, 0.75, 1.75]
    assert episode.silent_rewards == {"executor": -2.0}
    assert rewards_by_role(episode) == {"planner": 1.5, "executor": -0.5}
    assert (episode.role_return("executor"), episode.episode_return) == (-0.5, 1.0)


@pytest.mark.usefixtures("_duel")
def test_a_reward_while_silent_changes_no_comparison_of_candidates() -> None:
    """The executor takes the best answer, 3, and so all candidates of the planner's turn before lose 3."""
    context = make_context({"planner": says("1", "7", "4"), "executor": says("3", "2", "1")})
    (episode,) = play_turn_tree([1], context)
    assert [candidate.reward for candidate in episode.turns[0].candidates] == [-1.5, 4.5, 1.5]
    groups = make_groups([episode], context.config).groups
    assert groups["planner"][0].advantages == pytest.approx([-1.0, 1.0, 0.0], abs=1e-5)


@pytest.mark.usefixtures("_duel")
def test_a_reward_of_an_unknown_role_fails_its_episode() -> None:
    failed, played = play_turn_tree([9, 1], default_context()[0])
    assert (failed.failed, played.failed) == (True, False)
    assert "'judge'" in failed.error and "planner, executor" in failed.error


PLAYS: dict[str, Callable[[Sequence[int], RolloutContext], list[Episode]]] = {
    "turn_tree": play_turn_tree,
    "episodes": play_episodes,
    "multi_turn": play_episodes,
    "evaluation": lambda tasks, context: play_independent(tasks, context, "eval"),
}


@pytest.mark.parametrize("name", PLAYS)
def test_a_prompt_without_room_ends_its_own_episode(name: str) -> None:
    """The planner's second prompt in task 2: what was earned until then counts."""
    speaking = Recorder(lambda seen, prompt, index: "1")

    def plan(prompts: list[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        return [
            [NO_ROOM] * prompt.count
            if prompt.key.turn and "task 2" in TOKENIZER.decode(prompt.token_ids)
            else answers
            for prompt, answers in zip(prompts, speaking(prompts, settings), strict=True)
        ]

    voices = {"planner": plan, "executor": Recorder(lambda seen, prompt, index: "1")}
    kind = {"workflow__type": name} if name in ("episodes", "multi_turn") else {}
    context = make_context(voices, resources__environments_per_worker=192, **kind)
    episodes = PLAYS[name]([1, 2], context)
    full = [episode for episode in episodes if episode.overlong]
    assert {episode.task[-1] for episode in full} == {"2"} and len(full) == len(episodes) / 2
    for episode in full:
        assert "planner" in episode.overlong and episode.outcome == episode.overlong
        assert not episode.failed and [turn.role for turn in episode.turns] == ["planner", "executor"]
        assert episode.episode_return == 401 and episode.ended > 0
    assert all(len(episode.turns) == 4 for episode in episodes if not episode.overlong)
    make_groups(episodes, context.config)
