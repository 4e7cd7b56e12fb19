"""The turn tree: groups of one task, copies that are really stepped, selections that the next agent sees."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_core.llm.workflows import counting
from tests.training_core.llm.workflows.counting import Counting, CountingEnvironment, Recorder, make_context
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.turn_tree import choose_best, choose_sampled, play_turn_tree
from training_core.types import Answer, Candidate, Episode, NoiseKey


def planner() -> Recorder:
    """Candidates add 1, 7 and 4: the second is the best."""
    return Recorder(lambda seen, prompt, index: ("1", "7", "4")[index])


def executor() -> Recorder:
    """Candidates take away 3, 2 and 5: the second is the best."""
    return Recorder(lambda seen, prompt, index: ("3", "2", "5")[index])


def default_context(**overrides: object) -> RolloutContext:
    return make_context({"planner": planner(), "executor": executor()}, **overrides)  # type: ignore[arg-type]


def totals(episode: Episode) -> list[int]:
    """What each turn's prompt said the total was."""
    return [int(turn.messages[-1]["content"].split()[-1]) for turn in episode.turns]


def test_different_tasks_never_share_a_group() -> None:
    """Tasks lie 100 apart: advantages mixed over tasks would be dominated by which task it was."""
    context = default_context()
    episodes = play_turn_tree(range(4), context)
    batch = make_groups(episodes, context.config)
    assert {policy: len(groups) for policy, groups in batch.groups.items()} == {"planner": 8, "executor": 8}
    for group in batch.groups["planner"]:
        # rewards are the totals after 1, 7, 4 were added: mean 4, unbiased variance 9
        assert group.advantages == pytest.approx([-1.0, 1.0, 0.0], abs=1e-5)
    for group in batch.groups["executor"][::2]:
        # after 3, 2, 5 were taken away: mean -10/3, unbiased variance 7/3
        assert group.advantages == pytest.approx([0.2182, 0.8729, -1.0911], abs=1e-3)
    prompts = [tuple(group.prompt_ids) for group in batch.groups["planner"]]
    assert len(set(prompts)) == len(prompts)


FUNCTIONS = "tests.training_core.llm.rewards.reward_functions"


def scored_by(name: str, scores: str, path: Path, *said: str) -> list[Candidate]:
    """The candidates of one turn, in which the only role says these."""
    path.write_text("\n".join(f'{{"prompt": "task total {number}"}}' for number in range(40)))
    reward = {"type": "custom", "path": f"{FUNCTIONS}:{name}", "scores": scores, "processes": 1}
    config = counting.config(
        environment={"type": "dataset", "path": str(path), "reward": reward},
        team__roles={"planner": {"policy": "planner"}},
        policies={"planner": {}},
    )
    context = make_context({"planner": Recorder(lambda seen, prompt, index: said[index])})
    context = replace(context, config=config, pool=EnvironmentHost(config.environment, 0))
    (episode,) = play_turn_tree([0], context)
    assert not episode.failed, episode.error
    make_groups([episode], config)
    return episode.turns[0].candidates


def test_a_reward_function_sees_the_whole_group_and_the_tokens(tmp_path: Path) -> None:
    """1 and 5 have the mean 3 and two tokens each; the word has no reward, and no part in the advantages of the others."""
    group = scored_by("above_mean", "group", tmp_path / "lines.jsonl", "1", "boom", "5")
    assert [len(candidate.answer.token_ids) for candidate in group] == [2, 2, 2]
    assert [candidate.reward for candidate in group if candidate.scored] == pytest.approx([-1.98, 2.02])
    assert [candidate.advantage for candidate in group] == pytest.approx(
        [-(0.5**0.5), 0.0, 0.5**0.5], abs=1e-5
    )
    alone = scored_by("ids", "answer", tmp_path / "lines.jsonl", "1", "4 4", "4")
    assert [len(candidate.answer.token_ids) for candidate in alone] == [2, 3, 2]
    rewards = [candidate.reward for candidate in alone]
    assert rewards[1] - rewards[0] == pytest.approx(0.01) and rewards[0] == rewards[2]
    assert int(rewards[0]) == len(counting.render([{"role": "user", "content": "task total 3"}]))


def test_the_copies_that_are_stepped_are_those_that_are_selected_from() -> None:
    """+7 -2 +7 -2: had the original been stepped by every candidate, or not at all, no total would be right."""
    first, second = play_turn_tree([1, 2], default_context())
    assert totals(first) == [100, 107, 105, 112]
    assert totals(second) == [200, 207, 205, 212]
    assert (first.final_board, first.outcome, first.success) == ({"total": 110}, "ended at 110", True)
    assert [candidate.local_reward for candidate in first.turns[0].candidates] == [101, 107, 104]
    assert [candidate.local_reward for candidate in first.turns[3].candidates] == [109, 110, 107]


def test_the_next_agent_sees_the_selection_of_the_one_before() -> None:
    speaking = executor()
    play_turn_tree([1, 2], make_context({"planner": planner(), "executor": speaking}))
    assert speaking.seen == [
        "train task 1 total 107",
        "train task 2 total 207",
        "train task 1 total 112",
        "train task 2 total 212",
    ]


def test_all_candidates_of_a_turn_come_from_one_prompt_in_one_call() -> None:
    speaking = planner()
    play_turn_tree([5], make_context({"planner": speaking, "executor": executor()}))
    assert [prompt.count for prompt in speaking.prompts] == [3, 3]
    assert [prompt.key for prompt in speaking.prompts] == [NoiseKey(0, 0, 3, 5, turn, 0) for turn in (0, 1)]


def test_carry_sampled_takes_any_candidate_by_key_alone() -> None:
    many = play_turn_tree(range(60), default_context(workflow__carry="sampled"))
    taken = [turn.executed for episode in many for turn in episode.turns]
    assert [taken.count(index) for index in range(3)] == pytest.approx([80, 80, 80], abs=24)
    alone = play_turn_tree([41], default_context(workflow__carry="sampled"))[0]
    assert [turn.executed for turn in alone.turns] == [turn.executed for turn in many[41].turns]
    assert totals(alone) == totals(many[41])


def test_carry_best_takes_the_first_of_the_best() -> None:
    answer = Answer([], [], [], "stop", "")
    candidates = [Candidate(answer, reward=reward) for reward in (0.5, 2.0, 2.0, -1.0)]
    assert choose_best(candidates, NoiseKey(0, 0, 0, 0, 0, 0)) == 1
    assert {choose_sampled(candidates, NoiseKey(0, 0, 0, task, 0, 0)) for task in range(40)} == {0, 1, 2, 3}


@pytest.mark.parametrize(("paid", "of_planner"), [("team", 10), ("speaker", 0)])
def test_rewards_weigh_team_and_local(paid: str, of_planner: int) -> None:
    """The executor's last answer ends the episode. The planner's last turn earns as much, whatever its candidate."""
    weights = {"algorithm__team_weight": 10.0, "algorithm__local_weight": 0.5}
    context = default_context(**weights, algorithm__team_reward_to=paid)
    episode = play_turn_tree([1], context)[0]
    last = episode.turns[-1].candidates[1]
    assert (last.local_reward, last.team_reward, last.reward) == (110, 1.0, 65.0)
    earned = [candidate.reward - 0.5 * candidate.local_reward for candidate in episode.turns[-2].candidates]
    assert earned == [of_planner] * 3
    assert episode.episode_return == pytest.approx(0.5 * (107 + 105 + 112 + 110) + 10 + of_planner)


def test_roles_speak_in_turn_order() -> None:
    episode = play_turn_tree([1], default_context(team__turn_order=("executor", "planner")))[0]
    assert [turn.role for turn in episode.turns] == ["executor", "planner", "executor"]
    assert [turn.index for turn in episode.turns] == [0, 0, 1]


def test_a_role_that_acts_twice_in_a_turn_has_separate_noise() -> None:
    speaking = planner()
    voices = {"planner": speaking, "executor": executor()}
    play_turn_tree(
        [1], make_context(voices, Counting(turns=1), team__turn_order=("planner", "planner", "executor"))
    )
    assert [prompt.key.role for prompt in speaking.prompts] == [0, 1]
    assert speaking.seen == ["train task 1 total 100", "train task 1 total 107"]


def test_an_answer_that_breaks_the_environment_fails_its_episode_alone() -> None:
    def script(seen: str, prompt: object, index: int) -> str:
        return "boom" if "task 2 total 205" in seen else ("1", "7", "4")[index]

    context = make_context({"planner": Recorder(script), "executor": executor()})
    good, bad, other = play_turn_tree([1, 2, 3], context)
    assert (bad.failed, bad.success, len(bad.turns)) == (True, False, 2)
    assert bad.error.startswith("ValueError: invalid literal")
    assert bad.outcome.startswith("failed: ")
    assert bad.ended > 0
    for episode in (good, other):
        assert (episode.failed, episode.success, len(episode.turns)) == (False, True, 4)
    groups = make_groups([good, bad, other], context.config).groups["planner"]
    assert [group.episode for group in groups] == [good.id, good.id, other.id, other.id]


def test_environments_that_break_at_reset_or_when_seen_fail_their_episodes_alone() -> None:
    section = Counting(breaks_at_reset=(1,), breaks_when_seen=(2,))
    voices = {"planner": planner(), "executor": executor()}
    never, dark, good = play_turn_tree([1, 2, 3], make_context(voices, section))
    assert (never.failed, never.error, never.turns) == (True, "OSError: no such task", [])
    assert (dark.failed, dark.error, len(dark.turns)) == (True, "RuntimeError: went dark", 2)
    assert (good.failed, good.success) == (False, True)


def test_what_an_environment_says_of_its_roles_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    voices = {name: Recorder(lambda seen, prompt, index: "1") for name in ("planner", "executor")}
    (silent,) = play_turn_tree([1], make_context(voices))
    assert silent.role_success == {}
    apart = property(lambda self: {"planner": self.total > 0, "executor": False})
    monkeypatch.setattr(CountingEnvironment, "role_success", apart, raising=False)
    (reported,) = play_turn_tree([1], make_context(voices))
    assert reported.role_success == {"planner": True, "executor": False}
