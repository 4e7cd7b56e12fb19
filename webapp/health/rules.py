"""All rules by the name of their config section, each with its cause and remedy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from training_core.config.health import RunHealth
from webapp.health import course_rules as course
from webapp.health import series_rules as series
from webapp.health.inputs import Found, HealthInputs


@dataclass(frozen=True)
class Rule:
    """A check with the texts of its findings."""

    check: Callable[[HealthInputs, Any], Iterator[Found]]
    """Function of the observed input and the rule's settings."""
    cause: str
    remedy: str


RULES: dict[str, Rule] = {
    "entropy_collapse": Rule(
        series.entropy_collapse,
        "The policy has become almost deterministic, so the candidates of a group are equal and give no learning signal.",
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
        "The policy after an update is far from the one that sampled the data: the learning rate or the number of passes is too high.",
        "Lower the learning rate or policies.*.learner.epochs, or set algorithm.target_kl so that passes end early.",
    ),
    "ratio_tails": Rule(
        series.ratio_tails,
        "Some tokens are far more likely now than when they were sampled: stale data, too many epochs, or two engines that disagree.",
        "Use fewer epochs or minibatches per iteration, keep algorithm.dual_clip on, and look at the mismatch and staleness.",
    ),
    "clip_fraction": Rule(
        series.clip_fraction,
        "Updates are larger than the clip range, so much of the data has no gradient.",
        "Lower the learning rate or the number of epochs.",
    ),
    "gradient_norm": Rule(
        series.gradient_norm,
        "Gradients of several batches in a row are far larger than usual: the start of a divergence, or outliers in rewards or lengths.",
        "Look at the transcripts of these steps. Lower the learning rate or the bound of gradient clipping.",
    ),
    "too_easy": Rule(
        series.too_easy,
        "Every candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use harder tasks; the role has mastered these.",
    ),
    "too_hard": Rule(
        series.too_hard,
        "No candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use easier tasks at first, larger groups (rollout.group_size), or a base model that succeeds sometimes.",
    ),
    "truncation": Rule(
        series.truncation,
        "Responses reach the token limit before they end, and incomplete responses are rewarded.",
        "Raise the limit of new tokens, or request shorter responses in the prompt.",
    ),
    "overlong": Rule(
        series.overlong,
        "A prompt leaves no room for an answer in the model's context: a long task, or a history that grows from turn to turn.",
        "Use a model or an engine with a longer context, remove such tasks, or lower environment.max_turns or sampling.max_tokens.",
    ),
    "mismatch": Rule(
        series.mismatch,
        "Generation and training compute different probabilities for the same tokens: a different precision, kernel, template or version.",
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
        "Longer episodes are rewarded, or not penalised, although they do not help.",
        "Look at the longest transcripts; remove the length from the reward, or average the loss by token.",
    ),
    "stalled_phase": Rule(
        course.stalled_phase,
        "A phase hangs: an environment, a worker or a device does not respond.",
        "Find the unfinished phase on the timeline and the last active worker in the logs; pause and resume the run.",
    ),
    "dead_worker": Rule(
        course.dead_worker,
        "A process was killed (often for memory), or its machine or the network failed.",
        "Read the end of the logs; give the run more memory or smaller batches. "
        "It continues automatically from its last checkpoint while it has attempts left.",
    ),
    "not_a_number": Rule(
        series.not_a_number,
        "Numbers overflowed, or a reward or probability was not a number; the optimizer skips such steps.",
        "If it recurs: lower the learning rate, train in fp32, and look at the rewards of that step.",
    ),
}


def judge(settings: RunHealth, seen: HealthInputs) -> Iterator[tuple[str, Found]]:
    """Yield (rule, measurement) for every enabled rule whose value is above, or not well below, its bound."""
    for name, rule in settings.rules().items():
        for measurement in RULES[name].check(seen, rule):
            if measurement.excess >= settings.relax:
                yield name, measurement
