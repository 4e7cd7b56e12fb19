"""Metrics against numbers worked out by hand."""

from math import isnan

import pytest

from tests.workers.driver.builders import episode, turn
from training_core.types import Episode
from workers.protocol import Collected, EpisodeFacts, Span, Updated
from workers.telemetry import metrics


def test_facts_of_one_episode() -> None:
    played = episode(success=True)
    played.turns[1].candidates[1].answer = turn("x", [0.0], 0, tokens=3, stop="length").candidates[0].answer
    facts = metrics.episode_facts(played)
    assert facts.episode_return == 1.5
    assert facts.rewards == {"planner": 1.0, "executor": 0.5}
    assert facts.candidate_rewards == {"planner": 1.0, "executor": 0.0}
    assert facts.candidates == {"planner": 2, "executor": 2}
    assert (facts.tokens, facts.cut, facts.turns) == (9, 1, 1)


def test_train_metrics_leave_failed_episodes_out_but_count_them() -> None:
    facts = [metrics.episode_facts(item) for item in (episode(success=True), episode(failed=True), episode())]
    values = metrics.train_metrics(Collected(facts, [], seconds=2.0))
    assert values["train/return"] == 1.5
    assert values["train/success"] == 0.5
    assert values["train/planner/reward"] == 1.0
    assert values["train/planner/candidate_reward"] == 0.5
    assert values["rollout/failed"] == 1.0
    assert values["rollout/episodes_per_second"] == 1.5
    assert values["rollout/tokens_per_second"] == 12.0


def test_reward_timeouts_are_counted_if_a_reward_function_was_called() -> None:
    facts = [metrics.episode_facts(episode(reward_timeouts=count)) for count in (None, 2, 0, 1)]
    assert metrics.train_metrics(Collected(facts, []))["rewards/timeouts"] == 3.0
    assert "rewards/timeouts" not in metrics.train_metrics(Collected(facts[:1], []))


def test_answers_without_a_reward_are_counted_and_their_episodes_left_out() -> None:
    unscored, tried = episode(unscored=1), episode(unscored=1)
    unscored.turns[0].candidates[1].scored = False  # the executed one
    tried.turns[0].candidates[0].scored = False
    facts = [metrics.episode_facts(item) for item in (episode(success=True), tried, unscored)]
    values = metrics.train_metrics(Collected(facts, []))
    assert (values["rewards/unscored"], values["train/success"], values["train/return"]) == (2.0, 0.5, 1.5)
    assert values["train/planner/candidate_reward"] == pytest.approx(2 / 3), "of three candidates"
    values = metrics.eval_metrics("eval", facts)
    assert (values["eval/unscored"], values["eval/success"], values["eval/failed"]) == (2.0, 0.5, 0.0)
    rejected = Episode("e", 1, "train", "t", "", unscored=1)  # by a rollout workflow
    assert not metrics.episode_facts(rejected).scored


def test_episodes_with_a_prompt_without_room_are_counted() -> None:
    facts = [metrics.episode_facts(item) for item in (episode(overlong="no room"), episode())]
    assert metrics.train_metrics(Collected(facts, []))["rollout/overlong"] == 1.0
    assert metrics.eval_metrics("eval", facts)["eval/overlong"] == 1.0
    assert not [name for name in metrics.train_metrics(Collected(facts[1:], [])) if "overlong" in name]


def test_an_evaluation_leaves_the_same_episodes_out_of_success_and_return() -> None:
    facts = [metrics.episode_facts(item) for item in (episode(success=True), episode(failed=True))]
    values = metrics.eval_metrics("eval_sampled", facts)
    assert values["eval_sampled/success"] == 1.0
    assert values["eval_sampled/return"] == 1.5
    assert values["eval_sampled/failed"] == 1.0


def test_metrics_of_no_episode_are_nan() -> None:
    assert isnan(metrics.train_metrics(Collected([], []))["train/return"])


def test_truncation_failures_and_mistakes_are_counted_by_role() -> None:
    cut, failed, mistaken, silent = episode(), episode(), episode(), Episode("e", 1, "train", "t", "")
    cut.turns[1].candidates = turn("executor", [0.5, 0.5], 0, stop="length").candidates
    failed.fail("the environment raised", "planner")
    mistaken.failed_role, mistaken.agent_error = "executor", "ValueError: no such tool"
    silent.fail("no program took it")
    facts = [metrics.episode_facts(item) for item in (cut, failed, mistaken, silent)]
    values = metrics.train_metrics(Collected(facts, []))
    by_role = {name: value for name, value in values.items() if name.count("/") == 2 and "rollout" in name}
    assert by_role == {
        "rollout/planner/truncated": 0.0,
        "rollout/executor/truncated": pytest.approx(2 / 6),
        "rollout/planner/failed": 1.0,
        "rollout/executor/agent_errors": 1.0,
    }
    assert (values["rollout/failed"], values["rollout/agent_errors"]) == (2.0, 1.0)


def test_parts_of_rewards_are_averaged_over_the_episodes_that_report_them() -> None:
    one, other, failed = episode(), episode(), episode()
    for played, parts in (
        (one, {"right": 1.0, "for/mat": 0.5}),
        (other, {"right": 0.0}),
        (failed, {"right": 9.0}),
    ):
        played.add_reward_parts("planner", parts)
    one.add_reward_parts("planner", {"right": 2.0})
    failed.fail("the environment raised")
    facts = [metrics.episode_facts(item) for item in (one, other, failed)]
    for kind, values in (
        ("train", metrics.train_metrics(Collected(facts, []))),
        ("eval", metrics.eval_metrics("eval", facts)),
    ):
        assert values[f"{kind}/planner/reward/right"] == 1.5
        assert values[f"{kind}/planner/reward/for_mat"] == 0.5


def test_update_metrics_name_policy_and_role() -> None:
    groups = {"planner": {"total": 4, "zero_variance": 2, "too_easy": 1, "too_hard": 1, "filtered": 3}}
    values = metrics.update_metrics(
        Updated({"planner": {"loss": 0.5}}, [], groups, dropped=3, staleness=0.25)
    )
    assert values == {
        "policy/planner/loss": 0.5,
        "groups/planner/zero_variance": 0.5,
        "groups/planner/too_easy": 0.25,
        "groups/planner/too_hard": 0.25,
        "groups/planner/filtered": 0.75,
        "rollout/staleness": 0.25,
        "rollout/dropped": 3.0,
    }


def test_data_that_cannot_be_stale_has_no_staleness() -> None:
    assert metrics.update_metrics(Updated({}, [], {}, dropped=None, staleness=None)) == {}


def test_progress_adds_up() -> None:
    progress = metrics.Progress()
    progress.add([metrics.episode_facts(episode()), metrics.episode_facts(episode())])
    assert progress.metrics() == {
        "progress/episodes": 2.0,
        "progress/tokens": 16.0,
        "progress/env_steps": 8.0,
    }


def test_spans_of_one_worker_are_joined_over_short_gaps_only() -> None:
    def span(start: float, end: float, worker: str = "a") -> Span:
        return Span(worker, "rollout", "planner", 1, start, end)

    merged = metrics.merge_spans([span(1.5, 2.0), span(0.0, 1.0), span(1.01, 1.4), span(0.0, 3.0, "b")])
    assert [(item.worker, item.start, item.end) for item in merged] == [
        ("a", 0.0, 1.4),
        ("b", 0.0, 3.0),
        ("a", 1.5, 2.0),
    ]


@pytest.mark.parametrize("hosts", [{"node-1": {"cpu_percent": 12.5}}])
def test_system_metrics_name_the_host(hosts: dict[str, dict[str, float]]) -> None:
    assert metrics.system_metrics(hosts) == {"system/node-1/cpu_percent": 12.5}


def test_model_flops_by_policy_and_phase() -> None:
    spans = [
        Span("a", "rollout", "planner", 1, 0.0, 2.0, 8e12, 10e12), Span("b", "rollout", "planner", 1, 1.0, 3.0, 4e12, 20e12),
        Span("a", "update", "planner", 1, 3.0, 4.0, 6e12, None), Span("a", "sync", "planner", 1, 4.0, 5.0),
        Span("c", "rollout", "executor", 1, 0.0, 1.0), Span("a", "evaluate", "planner", 1, 5.0, 6.0, 1e12, 10e12),
    ]  # fmt: skip
    assert metrics.compute_metrics(spans) == {
        "compute/planner/rollout_flops_per_second": 3e12,
        "compute/planner/rollout_mfu": pytest.approx(12e12 / (2 * 10e12 + 2 * 20e12)),
        "compute/planner/update_flops_per_second": 6e12,
    }
    near = [
        Span("a", "rollout", "p", 1, 0.0, 1.0, 3.0, 9.0),
        Span("a", "rollout", "p", 1, 1.01, 2.0, 4.0, 9.0),
    ]
    assert metrics.merge_spans(near) == [Span("a", "rollout", "p", 1, 0.0, 2.0, 7.0, 9.0)]


def test_success_by_role_averages_episodes_that_define_it() -> None:
    facts = [
        EpisodeFacts(True, False, 1.0, {}, {}, {}, 0, 0, 1, successes={"tester": False, "coder": True}),
        EpisodeFacts(False, False, 0.0, {}, {}, {}, 0, 0, 1, successes={"tester": True, "coder": False}),
        EpisodeFacts(False, False, 0.0, {}, {}, {}, 0, 0, 1, successes={"coder": False}),
    ]
    values = metrics.eval_metrics("eval", facts)
    assert values["eval/success"] == pytest.approx(1 / 3)
    assert values["eval/tester/success"] == 0.5 and values["eval/coder/success"] == pytest.approx(1 / 3)
    assert not any(
        name.endswith("/success") for name in metrics.eval_metrics("eval", []) if name != "eval/success"
    )


def networks(success: bool | None, **successes: bool) -> EpisodeFacts:
    """An episode of small networks."""
    earned = {"adversaries": 1.0, "good": 2.0}
    return EpisodeFacts(success, False, 1.0, earned, {}, {}, 0, 0, 5, successes=successes)


def test_roles_and_agents_have_their_own_success_if_reported() -> None:
    facts = [
        networks(True, **{"good": True, "good/agent_0": True}),
        networks(False, **{"good": True, "good/agent_0": False}),
        networks(None),
    ]
    values = metrics.eval_metrics("eval", facts)
    assert values["eval/success"] == 0.5
    assert (values["eval/good/success"], values["eval/good/agent_0/success"]) == (1.0, 0.5)
    assert "eval/adversaries/success" not in values


def test_a_rollout_in_which_no_episode_ended_has_no_returns() -> None:
    assert metrics.train_metrics(Collected([], [], env_steps=100)) == {}
