"""Lines that a run of small networks prints after an evaluation, in MARLKit's format."""

from collections.abc import Iterator, Mapping
from math import nan

from training_core.config.marl import MarlConfig


def summary_lines(config: MarlConfig, iteration: int, values: Mapping[str, float]) -> Iterator[str]:
    """A line of sampled and greedy returns, then a line per trained policy about its last update, if there was one.

    With several roles, the first line also has each role's greedy reward.
    """

    def value(name: str) -> float:
        return values.get(name, nan)

    head = f"{config.environment.type} | {config.algorithm.type} | Iter {iteration}"
    policies = config.trained_policies
    returns = [
        f"eval_return={value('eval_sampled/return'):.2f} ± {value('eval_sampled/return_std'):.2f}",
        f"eval_len={value('eval_sampled/length'):.1f}",
        f"greedy return={value('eval/return'):.2f} ± {value('eval/return_std'):.2f}",
        f"EV={value(f'policy/{policies[0]}/explained_variance'):.3f}",
    ]
    if len(config.team.roles) > 1:
        returns += [f"{role}={value(f'eval/{role}/reward'):.2f}" for role in config.role_order]
    yield f"[{head}] {' | '.join(returns)}"
    for policy in policies:
        if f"policy/{policy}/actor_loss" not in values:
            continue  # no update yet: the first evaluation, or that of the checkpoint that the run forks
        name = f"{policy}: " if len(policies) > 1 else ""
        figures = {
            figure: value(f"policy/{policy}/{metric}")
            for figure, metric in {
                "EV": "explained_variance",
                "KL": "kl",
                "clip": "clip_fraction",
                "H": "entropy",
                "ratio": "ratio_mean",
                "spread": "ratio_std",
                "Vloss": "value_loss",
                "Aloss": "actor_loss",
            }.items()
        }
        yield name + (
            "EV={EV:.3f} KL={KL:.4f} clip={clip:.2f} H={H:.2f} Ratio={ratio:.3f}±{spread:.3f} "
            "Vloss={Vloss:.3f} Aloss={Aloss:.3f}"
        ).format(**figures)
