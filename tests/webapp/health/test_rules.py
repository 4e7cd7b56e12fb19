"""Every rule on synthetic series: where it must fire, and where it must not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from training_core.config.health import Health, NetworkHealth, RunHealth
from webapp.health.inputs import Found, HealthInputs, SeriesTail, Vitals
from webapp.health.rules import RULES, judge
from webapp.health.services import Level, level_now

NAN = float("nan")


def curve(values: Sequence[float], every: int = 1) -> SeriesTail:
    return SeriesTail(np.arange(1, len(values) + 1) * every, np.array(values, dtype=float))


def ramp(first: float, last: float, count: int = 40) -> list[float]:
    return list(np.linspace(first, last, count))


def seen(**vitals: float | tuple[int, ...]) -> HealthInputs:
    return HealthInputs({}, Vitals(**vitals), step=7)  # type: ignore[arg-type]


def shown(curves: dict[str, Sequence[float]], every: int = 1) -> HealthInputs:
    rare = {key: curve(values, every) for key, values in curves.items() if key.startswith("eval/")}
    return HealthInputs({key: curve(values) for key, values in curves.items()} | rare)


def tokens(per_episode: Sequence[float], success: Sequence[float]) -> HealthInputs:
    counts = np.arange(1, len(per_episode) + 1) * 10.0
    spent = np.cumsum(np.array(per_episode) * 10.0)
    return shown(
        {"progress/episodes": list(counts), "progress/tokens": list(spent), "train/success": success}
    )


def held_out(values: Sequence[float], train: Sequence[float]) -> HealthInputs:
    return shown({"eval/success": values, "train/success": train}, every=10)


UNPAID = {"groups/a/too_hard": [0.95] * 8, "groups/a/zero_variance": [1.0] * 8}
ILL = {
    "entropy_collapse": shown({"policy/a/entropy": [*ramp(1.0, 0.0), 0.0, 0.0, 0.0]}),
    "kl_blow_up": shown({"policy/a/kl": ramp(0.0, 3.0)}),
    "policy_shift": shown({"policy/a/kl": ramp(0.01, 0.5)}),
    "ratio_tails": shown({"policy/a/ratio_max": [2.0] * 10 + [60.0] * 5}),
    "clip_fraction": shown({"policy/a/clip_fraction": ramp(0.1, 0.5)}),
    "gradient_norm": shown({"policy/a/grad_norm": [1.0] * 30 + [40.0, 1.0, 30.0, 50.0]}),
    "unchanged_policy": shown({"policy/a/weight_change": [1e-9] * 8, "policy/a/lr": [1e-12] * 8}),
    "too_easy": shown({"groups/a/too_easy": ramp(0.1, 1.0)}),
    "too_hard": shown({"groups/a/too_hard": [0.95] * 8}),
    "unpaid_role": shown(UNPAID | {"groups/b/zero_variance": [0.5] * 8}),
    "truncation": shown({"rollout/solver/truncated": ramp(0.0, 0.4)}),
    "idle_role": shown({"eval/a/influence_high": [0.2, 0.003, 0.001], "eval/b/influence_high": [0.3] * 3}),
    "harmful_role": shown({"eval/a/worth": [0.1, -0.4, -0.3], "eval/a/worth_half_width": [0.2] * 3}),
    "no_spread": shown(
        {
            "groups/a/zero_variance": [0.95] * 8,
            "groups/a/too_easy": [0.5] * 8,
            "groups/a/too_hard": [0.45] * 8,
        }
    ),
    "overlong": shown({"train/return": [0.0] * 40, "rollout/overlong": [0.0] * 30 + [1.0] * 5}),
    "mismatch": shown({"policy/a/mismatch_mean": ramp(0.001, 0.2)}),
    "recompilation": shown({"policy/a/compilations": [12.0] + [1.0, 0.0, 2.0] * 5}),
    "staleness": shown({"rollout/staleness": [6.0] * 8}),
    "overfitting": replace(held_out([0.5, 0.8, 0.7, 0.68, 0.67], ramp(0.4, 0.95, 50)), evaluated=64),
    "success_fell": held_out([0.2, 0.0, 0.05, 0.02], [0.2, *[0.05] * 39]),
    "return_rises_success_falls": shown({"train/success": ramp(0.2, 0.06), "train/return": ramp(-0.1, 5.0)}),
    "failed_episodes": shown({"rollout/failed": [16.0] * 12, "progress/episodes": ramp(64, 768, 12)}),
    "agent_errors": shown({"rollout/agent_errors": [50.0] * 12, "progress/episodes": ramp(64, 768, 12)}),
    "length_hacking": tokens(ramp(100, 300), [0.5] * 40),
    "stalled_phase": seen(idle=400.0, usual=5.0, silent=1.0),
    "dead_worker": seen(silent=100.0),
    "lost_events": seen(lost_events=3),
    "not_a_number": shown({"policy/a/loss": [0.1] * 10 + [NAN]}),
}
WELL = {
    "entropy_collapse": [
        shown({"policy/a/entropy": ramp(1.3, 0.12)}),
        shown({"policy/a/entropy": [0.02] * 40}),
        shown({"policy/a/entropy": [0.0] * 3}),
        shown({"policy/a/entropy": ramp(1.0, 0.0), "train/success": [0.95] * 40}),
    ],
    "kl_blow_up": [shown({"policy/a/kl": ramp(0.0, 0.4)}), shown({"policy/a/kl": [0.1] * 9 + [4.0]})],
    "policy_shift": [shown({"policy/a/kl": [0.02] * 40}), shown({"policy/a/entropy": ramp(1.0, -9.0)})],
    "ratio_tails": [shown({"policy/a/ratio_max": [2.0] * 14 + [60.0]})],
    "clip_fraction": [shown({"policy/a/clip_fraction": [0.15] * 40})],
    "gradient_norm": [
        shown({"policy/a/grad_norm": ramp(1.0, 4.0)}),
        shown({"policy/a/grad_norm": [0.001] * 30 + [0.5]}),
        shown({"policy/a/grad_norm": [1.0] * 30 + [40.0, 1.0]}),
    ],
    "idle_role": [
        shown({"eval/a/influence_high": [0.001], "eval/b/influence_high": [0.3]}),
        shown(
            {
                "eval/a/influence_high": [0.0] * 2,
                "eval/b/influence_high": [0.3] * 2,
                "eval/success": [0.5, 0.97],
            }
        ),
        shown({"eval/a/influence_high": [0.001, 0.08], "eval/b/influence_high": [0.3] * 2}),
        shown({"eval/a/influence_high": [0.0] * 2, "eval/b/influence_high": [0.0] * 2}),
    ],
    "harmful_role": [
        shown({"eval/a/worth": [-0.1, -0.1], "eval/a/worth_half_width": [0.2, 0.2]}),
        shown({"eval/a/worth": [0.3, 0.2], "eval/a/worth_half_width": [0.1, 0.1]}),
    ],
    "unchanged_policy": [
        shown({"policy/a/weight_change": [0.0] * 4}),
        shown({"policy/a/weight_change": [1e-4] * 20 + [0.0] * 20, "train/success": [0.95] * 40}),
        shown({"policy/a/weight_change": ramp(1e-4, 1e-6)}),
    ],
    "too_easy": [
        shown({"groups/a/too_easy": [0.5] * 40}),
        shown(
            {"groups/a/too_easy": ramp(0.1, 1.0), "eval/success": [0.2, 0.97], "train/success": [0.8] * 40}
        ),
    ],
    "too_hard": [
        shown({"groups/a/too_hard": ramp(1.0, 0.1)}),
        shown(UNPAID | {"train/success": [0.2] * 8}),  # easier tasks do not help
    ],
    "unpaid_role": [
        shown(UNPAID | {"groups/b/zero_variance": [1.0] * 8, "train/success": [0.0] * 8}),
        shown(UNPAID | {"groups/a/zero_variance": [0.99] * 8, "train/success": [0.2] * 8}),
    ],
    "no_spread": [
        shown({"groups/a/zero_variance": [0.95] * 8, "groups/a/too_hard": [0.9] * 8}),
        shown({"groups/a/zero_variance": ramp(0.3, 1.0), "train/success": ramp(0.2, 1.0)}),
    ],
    "truncation": [shown({"rollout/solver/truncated": [0.05] * 40, "rollout/truncated": [0.4] * 40})],
    "overlong": [shown({"train/return": [0.0] * 40, "rollout/overlong": [1.0] * 20})],
    "mismatch": [
        shown({"policy/a/mismatch_mean": [0.01, 0.02] * 10}),
        shown({"policy/a/mismatch_mean": [0.01] * 14 + [0.2]}),
        shown({"policy/a/mismatch_mean": [0.001] * 9, "policy/a/mismatch_max": [5.0] * 9}),
    ],
    "recompilation": [shown({"policy/a/compilations": [20.0, 4.0, 0.0, 2.0] + [0.0] * 8})],
    "staleness": [shown({"rollout/staleness": [0.0, 1.0] * 10})],
    "overfitting": [
        held_out([0.5, 0.8, 0.82, 0.85, 0.84], ramp(0.4, 0.95, 50)),
        held_out([0.5, 0.8, 0.6, 0.79, 0.8], ramp(0.4, 0.95, 50)),
        held_out([0.5, 0.8, 0.7, 0.6, 0.55], ramp(0.9, 0.4, 50)),
    ],
    "success_fell": [
        held_out([0.5, 0.9, 0.4, 0.8], ramp(0.4, 0.9)),
        held_out([0.9, 0.6], [0.5] * 40),
    ],
    "return_rises_success_falls": [
        shown({"train/success": ramp(0.3, 0.05), "train/return": ramp(3.0, 0.0)}),
        shown({"train/success": ramp(0.3, 0.9), "train/return": ramp(0.0, 3.0)}),
    ],
    "failed_episodes": [
        shown({"rollout/failed": [3.0] * 12, "progress/episodes": ramp(64, 768, 12)}),
        shown({"rollout/failed": [32.0] * 4 + [0.0] * 8, "progress/episodes": ramp(64, 768, 12)}),
    ],
    "agent_errors": [
        shown({"rollout/agent_errors": [50.0] * 6 + [9.0] * 6, "progress/episodes": ramp(64, 768, 12)}),
        replace(
            shown({"progress/episodes": ramp(64, 768, 12)} | {"rollout/agent_errors": [60.0] * 2}), step=12
        ),
    ],
    "length_hacking": [tokens(ramp(100, 300), ramp(0.3, 0.8)), tokens([100.0] * 40, [0.5] * 40)],
    "stalled_phase": [seen(idle=200.0, usual=5.0), seen(idle=400.0, usual=60.0), seen(silent=100.0)],
    "dead_worker": [seen(silent=10.0), seen(idle=400.0, usual=60.0)],
    "lost_events": [seen(lost_events=0)],
    "not_a_number": [shown({"policy/a/loss": [0.1] * 10}), shown({"policy/a/loss": [NAN] + [0.1] * 60})],
}


def judged(observed: HealthInputs, settings: RunHealth | None = None) -> dict[str, list[Found]]:
    """What is above its bound."""
    found: dict[str, list[Found]] = {}
    for rule, each in judge(settings or Health(), observed):
        if each.excess > 1:
            found.setdefault(rule, []).append(each)
    return found


def kind_of(rule: str) -> RunHealth:
    return Health() if rule in Health().rules() else NetworkHealth()


def severity(found: Found) -> str:
    return level_now(Level.NONE, found, 0.7).name.lower()


def test_every_rule_has_cases_settings_and_words() -> None:
    both = {*Health().rules(), *NetworkHealth().rules()}
    assert set(ILL) == set(WELL) == set(RULES) == both
    assert all(rule.cause and rule.remedy for rule in RULES.values())


@pytest.mark.parametrize("rule", RULES)
def test_fires_and_says_why(rule: str) -> None:
    found = judged(ILL[rule], kind_of(rule))
    assert set(found) == {rule}
    (one,) = found[rule]
    assert severity(one) in ("critical", "warning") and one.title and one.figures and one.first <= one.last
    assert all(key in ILL[rule].curves for key in one.series)


@pytest.mark.parametrize("rule", RULES)
def test_is_silent_where_all_is_well(rule: str) -> None:
    for observed in WELL[rule]:
        assert rule not in judged(observed, kind_of(rule))


def test_rewards_without_spread_from_the_start_are_found_though_every_episode_succeeds() -> None:
    """A verifier that accepts everything."""
    always = {"groups/a/zero_variance": [1.0] * 8, "groups/a/too_easy": [1.0] * 8, "train/success": [1.0] * 8}
    assert set(judged(shown(always))) == {"no_spread"}


def test_each_policy_and_role_has_its_own() -> None:
    observed = shown({"policy/a/kl": [2.0] * 9, "policy/b/kl": [0.1] * 9, "policy/c/kl": [9.0] * 9})
    found = judged(observed)["kl_blow_up"]
    assert [(each.key, severity(each)) for each in found] == [
        ("policy/a/kl", "warning"),
        ("policy/c/kl", "critical"),
    ]


def test_titles_give_shares_in_percent_and_names_as_they_are() -> None:
    observed = shown({"groups/{a}/too_hard": [0.9] * 9, "policy/b{}/kl": [2.0] * 9})
    titles = {rule: found[0].title for rule, found in judged(observed).items()}
    assert titles["too_hard"] == "90% of {a}'s groups are too hard"
    assert titles["kl_blow_up"] == "b{} is far from its base model: KL 2 nats per token"


def test_thresholds_come_from_the_config() -> None:
    observed = shown({"policy/a/kl": [0.5] * 9})
    assert not judged(observed)
    assert judged(observed, Health.model_validate({"kl_blow_up": {"above": 0.4}}))


def test_steps_without_a_number_are_no_evidence_for_others() -> None:
    values = [0.5] * 5 + [NAN] * 5
    assert set(judged(shown({"policy/a/clip_fraction": values}))) == {"clip_fraction"}


def test_a_nan_that_passed_is_a_warning() -> None:
    found = judged(shown({"policy/a/grad_norm": [0.1, NAN, 0.1, 0.1]}))["not_a_number"]
    assert [(severity(each), each.first, each.last) for each in found] == [("warning", 2, 2)]


def test_an_attempt_that_died_is_told_with_its_reason() -> None:
    vitals = Vitals(lost=(1,), reasons={1: "killed for memory"})
    (found,) = judged(replace(HealthInputs({}), vitals=vitals))["dead_worker"]
    assert found.key == "attempt 1" and found.figures["reason"] == "killed for memory"


@pytest.mark.parametrize("rule", sorted(Health().rules().keys() - NetworkHealth().rules().keys()))
def test_networks_are_not_judged_by_rules_of_language_models(rule: str) -> None:
    assert rule not in judged(ILL[rule], NetworkHealth())


def test_a_continuous_policy_that_becomes_certain_is_well() -> None:
    assert not judged(shown({"policy/a/entropy": ramp(2.0, -6.0)}), NetworkHealth())


def test_stored_rules_of_language_models_are_dropped_unless_changed() -> None:
    stored = Health().model_dump(mode="json")
    stored["too_easy"].pop("unless_success")
    assert NetworkHealth.model_validate(stored) == NetworkHealth()
    stored["too_easy"]["above"] = 0.5
    with pytest.raises(ValueError, match="too_easy"):
        NetworkHealth.model_validate(stored)


@pytest.mark.parametrize(
    ("before", "excess", "after"),
    [
        (Level.NONE, 0.9, Level.NONE), (Level.NONE, 1.1, Level.WARNING), (Level.NONE, 3.1, Level.CRITICAL),
        (Level.WARNING, 0.9, Level.WARNING), (Level.WARNING, 0.6, Level.NONE), (Level.WARNING, 3.1, Level.CRITICAL),
        (Level.CRITICAL, 2.9, Level.CRITICAL), (Level.CRITICAL, 2.0, Level.WARNING), (Level.CRITICAL, 0.6, Level.NONE),
    ],
)  # fmt: skip
def test_a_level_once_reached_holds_below_its_bound(before: Level, excess: float, after: Level) -> None:
    found = Found("k", "t", 1, 1, {}, ("k",), excess=excess, critical_at=3.0)
    assert level_now(before, found, 0.7) is after


def test_evaluations_of_a_policy_that_does_not_change_are_no_fall() -> None:
    """64 held-out tasks, other ones in each evaluation; success 0.1 to 0.9."""
    random = np.random.default_rng(0)
    false = 0
    for success in np.linspace(0.1, 0.9, 200):
        values = random.binomial(64, success, 20) / 64
        each = (shown({"eval/success": values[:count]}) for count in range(3, 21))
        false += any(judged(replace(one, evaluated=64)) for one in each)
    assert false <= 10
