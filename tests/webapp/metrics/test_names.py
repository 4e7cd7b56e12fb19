"""Names of metrics: expressions, their importance, and the panels that follow from it."""

import math

import numpy as np
import pytest

from training_core.errors import ConfigError
from webapp.metrics.expressions import LONGEST, expression_read
from webapp.metrics.names import by_importance, without_counters, without_split
from webapp.metrics.panels import board_data

TRL = [
    "train/loss", "train/grad_norm", "train/learning_rate", "train/num_tokens", "completions/mean_length", "completions/clipped_ratio",
    "rewards/format_reward/mean", "rewards/format_reward/std", "train/reward", "train/reward_std", "train/kl", "train/entropy",
    "train/step_time", "train/epoch", "train/train_runtime", "train/train_loss",
]  # fmt: skip
"""As TRL's GRPOTrainer reports them through `troupe.trainer_callback`."""
STABLE_BASELINES = [
    "time/fps", "time/iterations", "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/clip_fraction",
    "train/learning_rate", "train/loss", "train/n_updates", "train/value_loss", "eval/mean_reward", "eval/mean_ep_length",
]  # fmt: skip
CLEAN_RL = ["charts/SPS", "losses/value_loss", "charts/episodic_length", "charts/episodic_return"]
LIGHTNING = ["lr-AdamW", "train_loss", "epoch", "val_acc", "val_loss"]


def test_the_outcome_comes_first_and_counters_clocks_and_spreads_do_not_count() -> None:
    assert by_importance(TRL) == [
        "train/reward", "train/loss", "rewards/format_reward/mean", "train/kl", "train/entropy", "completions/mean_length",
        "train/reward_std", "train/grad_norm", "train/learning_rate",
    ]  # fmt: skip
    assert by_importance(STABLE_BASELINES) == [
        "rollout/ep_rew_mean", "eval/mean_reward", "train/loss", "train/approx_kl", "rollout/ep_len_mean", "eval/mean_ep_length",
        "train/value_loss", "train/clip_fraction", "train/learning_rate",
    ]  # fmt: skip
    assert by_importance(CLEAN_RL) == [
        "charts/episodic_return",
        "charts/episodic_length",
        "losses/value_loss",
    ]
    assert by_importance(LIGHTNING) == ["train_loss", "val_loss", "val_acc", "lr-AdamW"]


def test_without_a_known_name_all_count_and_a_lone_counter_is_better_than_nothing() -> None:
    assert by_importance(["speed", "a/b", "epoch", "system/host/cpu_percent"]) == ["speed", "a/b"]
    assert by_importance(["epoch", "system/host/cpu_percent"]) == ["epoch"]


def test_a_mean_over_a_metric_is_left_out_beside_it_only() -> None:
    assert without_counters(["train/loss", "train/train_loss", "eval/train_loss"]) == [
        "train/loss",
        "eval/train_loss",
    ]
    assert without_counters(["train/train_loss"]) == ["train/train_loss"]


def test_a_split_is_the_start_of_a_name() -> None:
    assert [without_split(key) for key in ("eval_loss", "val/loss", "my_train_loss", "train")] == [
        "loss", "loss", "my_train_loss", "train",
    ]  # fmt: skip


PROGRAMS = ["epoch", "eval/loss", "loss", "lr (body)", "reward"]


def test_runs_of_custom_programs_have_panels_of_their_most_important_names() -> None:
    assert board_data([], [], keys=PROGRAMS)["default"] == [
        {"metrics": ["reward"]},
        {"metrics": ["eval/loss", "loss"], "title": "loss"},
    ]
    assert board_data([], [], keys=[*PROGRAMS, "train/return"])["default"] == [{"metrics": ["train/return"]}]
    assert board_data([], [], (), PROGRAMS)["default"] == []


COLUMNS = {
    "eval/success": np.array([0.5, 1.0, 2.0]),
    "a": np.array([4.0, 9.0, 0.0]),
    "x-y/z:1": np.array([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("eval/success - a", [-3.5, -8.0, 2.0]),
        ("a / eval/success", [8.0, 9.0, 0.0]),
        ("2 * (a + 1) - -a ^ 2", [26.0, 101.0, 2.0]),
        ("1 - 2 - 3 + a", [0.0, 5.0, -4.0]),
        ('sqrt(a) + abs("x-y/z:1" - 2)', [3.0, 3.0, 1.0]),
        ("x-y/z:1 * .5e1", [5.0, 10.0, 15.0]),
        ("log(exp(a))", [4.0, 9.0, 0.0]),
        ("1 / a", [0.25, 1 / 9, math.inf]),
    ],
)
def test_values_by_hand(text: str, wanted: list[float]) -> None:
    expression = expression_read(text)
    with np.errstate(all="ignore"):
        assert expression.value(COLUMNS).tolist() == pytest.approx(wanted)
    assert set(expression.keys) <= set(COLUMNS) and not expression.single


def test_a_text_without_spaces_is_a_metric() -> None:
    for name in ("eval/success", "loss+x", "1/2", "größe"):
        assert expression_read(name).single and expression_read(f" {name} ").keys == (name,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eval/success -", "is incomplete"),
        ("(a + b", "is incomplete"),
        ("a b", "'b' is not expected (column 3)"),
        ("a + = b", "'= b' is not expected (column 5)"),
        ("__import__(a)", "'(a)' is not expected"),
        ("1 + 2", "has no metric"),
        ("", "at most 200 characters"),
        ("a + " * LONGEST + "a", "at most 200 characters"),
    ],
)
def test_an_invalid_expression_is_reported_at_its_field(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        expression_read(text, "x")
    assert message in raised.value.fields["x"]


def test_the_deepest_expression_is_read() -> None:
    text = "(" * 95 + "a " + ")" * 95
    assert expression_read(text).keys == ("a",)
    assert expression_read("a" + " + a" * 45).value({"a": np.array([1.0])}).tolist() == [46.0]
    assert expression_read("abs(" * 38 + "a" + ")" * 38).value({"a": np.array([-1.0])}).tolist() == [1.0]
