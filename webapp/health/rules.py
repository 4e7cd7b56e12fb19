"""All rules by the name of their section in the config, each with what to think of it and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from training_core.config.health import RunHealth
from webapp.health import course_rules as course
from webapp.health import series_rules as series
from webapp.health.observed import Found, Observed


@dataclass(frozen=True)
class Rule:
    """A check, and the words that go with its findings."""

    check: Callable[[Observed, Any], Iterator[Found]]
    """Of what was observed and the rule's settings."""
    cause: str
    remedy: str


RULES: dict[str, Rule] = {
    "entropy_collapse": Rule(
        series.entropy_collapse,
        "The policy has become almost deterministic, so groups hold equal answers and nothing more is learnt.",
        "Fork from a checkpoint before the fall with a larger algorithm.entropy_coefficient or algorithm.clip_high, "
        "or a lower learning rate.",
    ),
    "kl_blow_up": Rule(
        series.kl_blow_up,
        "The updates move the policy far from its base model: too high a learning rate, or a reward that can be gamed.",
        "Lower the learning rate, raise algorithm.kl_coefficient, and read transcripts of the latest iterations.",
    ),
    "policy_shift": Rule(
        series.policy_shift,
        "The policy after an update is far from the one that played: the learning rate or the number of passes is too high.",
        "Lower the learning rate or algorithm.epochs, or set algorithm.target_kl so that passes end early.",
    ),
    "ratio_tails": Rule(
        series.ratio_tails,
        "Some tokens are many times likelier now than when they were sampled: stale data, too many epochs, or two engines that disagree.",
        "Use fewer epochs or minibatches per iteration, keep algorithm.dual_clip on, and look at the mismatch and staleness.",
    ),
    "clip_fraction": Rule(
        series.clip_fraction,
        "Updates are larger than the clip range, so much of the data teaches nothing.",
        "Lower the learning rate or the number of epochs.",
    ),
    "gradient_norm": Rule(
        series.gradient_norm,
        "One batch pulled far harder than usual: an outlier in rewards or lengths, or the start of a divergence.",
        "Look at the transcripts of that step. If it comes again, lower the learning rate or the bound of gradient clipping.",
    ),
    "too_easy": Rule(
        series.too_easy,
        "Every candidate succeeds, so advantages are zero and the role learns nothing.",
        "Use harder tasks; training on these is done.",
    ),
    "too_hard": Rule(
        series.too_hard,
        "No candidate succeeds, so advantages are zero and the role learns nothing.",
        "Use easier tasks at first, larger groups (rollout.group_size), or a base model that succeeds sometimes.",
    ),
    "truncation": Rule(
        series.truncation,
        "Answers reach the token limit before they end, and are rewarded for half a thought.",
        "Raise the limit of new tokens, or shorten what the prompt asks for.",
    ),
    "mismatch": Rule(
        series.mismatch,
        "Generation and training compute different probabilities for the same tokens: another precision, kernel, template or version.",
        "Use the same precision and attention on both sides, and check that new weights arrive before sampling.",
    ),
    "staleness": Rule(
        series.staleness,
        "Generation lags behind training, so that updates are far off policy.",
        "Give generation more devices, or allow less lag.",
    ),
    "overfitting": Rule(
        course.overfitting,
        "The policy learns the training tasks, or a flaw of their reward, instead of the skill.",
        "Go back to the best checkpoint, use more training tasks, and compare transcripts of training and probes.",
    ),
    "length_hacking": Rule(
        course.length_hacking,
        "Longer play is rewarded, or not punished, although it does not help.",
        "Look at the longest transcripts; take the length out of the reward, or average the loss by token.",
    ),
    "stalled_phase": Rule(
        course.stalled_phase,
        "A phase hangs: an environment, a worker or a device does not come back.",
        "See on the timeline what began and did not end, and in the logs which worker spoke last; pause and resume the run.",
    ),
    "dead_worker": Rule(
        course.dead_worker,
        "A process was killed (often for memory), its machine is gone, or the network between is.",
        "Read the end of the logs; give the run more memory or smaller batches. "
        "It goes on from its last checkpoint by itself while it has attempts left.",
    ),
    "not_a_number": Rule(
        series.not_a_number,
        "Numbers overflowed, or a reward or probability was no number; the optimiser skips such steps.",
        "If it comes again: lower the learning rate, train in fp32, and look at the rewards of that step.",
    ),
}


def judge(settings: RunHealth, seen: Observed) -> Iterator[tuple[str, Found]]:
    """(rule, what it found) for every rule of the settings whose figure is above, or not well below, its bound."""
    for name, rule in settings.rules().items():
        for found in RULES[name].check(seen, rule):
            if found.excess >= settings.relax:
                yield name, found
