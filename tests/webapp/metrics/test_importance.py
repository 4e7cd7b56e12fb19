"""The order of metrics by their names, for the names that common trainers log."""

from webapp.metrics.importance import by_importance, without_counters, without_split

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
