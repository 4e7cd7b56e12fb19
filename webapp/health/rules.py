"""The health rules, by the name of their config section: each with a check of the observed metrics, a cause and a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass

from training_core.config.health import RunHealth
from webapp.health.checks import episodes, liveness, policies, roles, success
from webapp.health.checks.common import Check, mean_above, median_above
from webapp.health.inputs import Found, HealthInputs


@dataclass(frozen=True)
class Rule:
    """A check with the texts of its findings."""

    check: Check
    """Function of the observed input and the settings of the rule."""
    measured: str
    """What is measured, with its unit."""
    needs: str
    """What must exist before there is a value: a format of the settings of the rule."""
    cause: str
    remedy: str
    harms: bool = False
    """Whether a critical finding stays open until success has recovered."""


RULES: dict[str, Rule] = {
    "entropy_collapse": Rule(
        policies.entropy_collapse,
        "entropy, nats per token",
        "twice {window} iterations",
        "The policy has become almost deterministic, so the candidates of a group are equal and give no learning signal.",
        "Fork from a checkpoint before the fall with a larger algorithm.entropy_coefficient or algorithm.clip_high, "
        "or a lower learning rate.",
        harms=True,
    ),
    "kl_blow_up": Rule(
        mean_above("policy/*/kl", "{whose} is far from its base model: KL {mean:.3g} nats per token", 3.0),
        "KL from the base model, nats per token",
        "{window} iterations",
        "The updates move the policy far from its base model: too high a learning rate, or a reward that can be gamed.",
        "Lower the learning rate, raise algorithm.kl_coefficient, and read transcripts of the latest iterations.",
        harms=True,
    ),
    "policy_shift": Rule(
        mean_above("policy/*/kl", "Updates change {whose} strongly: KL {mean:.3g} nats per action", 3.0),
        "KL between the policies before and after an update, nats per action",
        "{window} iterations",
        "The policy after an update is far from the one that sampled the data: the learning rate or the number of passes is too high.",
        "Lower the learning rate or policies.*.learner.epochs, or set algorithm.target_kl so that passes end early.",
        harms=True,
    ),
    "ratio_tails": Rule(
        median_above(
            "ratio_max",
            "Probability ratios of {whose} have long tails: up to {median:.3g}",
            "largest ratio",
            critical_at=10.0,
        ),
        "largest probability ratio, median",
        "{window} iterations",
        "Some tokens are far more likely now than when they were sampled: stale data, too many epochs, or two engines that disagree.",
        "Use fewer epochs or minibatches per iteration, keep algorithm.dual_clip on, and look at the mismatch and staleness.",
        harms=True,
    ),
    "clip_fraction": Rule(
        mean_above("policy/*/clip_fraction", "{mean:.0%} of {whose}'s data is clipped", 2.0),
        "share of clipped data",
        "{window} iterations",
        "Updates are larger than the clip range, so much of the data has no gradient.",
        "Lower the learning rate or the number of epochs.",
        harms=True,
    ),
    "gradient_norm": Rule(
        policies.gradient_norm,
        "gradient norm (L2), median",
        "{window} iterations and 5 before them",
        "Gradients of several batches in a row are far larger than usual: the start of a divergence, or outliers in rewards or lengths.",
        "Look at the transcripts of these steps. Lower the learning rate or the bound of gradient clipping.",
        harms=True,
    ),
    "unchanged_policy": Rule(
        policies.unchanged_policy,
        "change of the weights, share of their norm",
        "{window} iterations",
        "The optimizer has nothing to apply: a learning rate that is far too low, an adapter whose weights get no gradient, or "
        "groups of equal rewards only.",
        "Look at the gradient norm and at groups/*/zero_variance. Raise the learning rate, or correct the adapter or the reward.",
    ),
    "too_easy": Rule(
        episodes.too_easy,
        "share of groups",
        "{window} iterations",
        "Every candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use harder tasks; the role has mastered these.",
    ),
    "too_hard": Rule(
        roles.too_hard,
        "share of groups",
        "{window} iterations",
        "No candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use easier tasks at first, larger groups (rollout.group_size), or a base model that succeeds sometimes.",
    ),
    "unpaid_role": Rule(
        roles.unpaid_role,
        "share of groups of equal rewards",
        "{window} iterations",
        "No reward reaches this role: whatever it answers, it earns the same as its other candidates, since the start. The team is "
        "paid when another role answers.",
        'Set workflow.value = "turn", or workflow.type = "episodes" with algorithm.team_reward_to = "team"; or reward its answers.',
    ),
    "idle_role": Rule(
        roles.idle_role,
        "influence of the role's messages, upper bound",
        "{window} evaluations with evaluation.worth",
        "Other answers of the role lead to the same value: the others do not read it, or they repair whatever it says.",
        "Read alternatives and their continuations (Who earned it, on a transcript). Give the role something that only it can see, or "
        "remove it from the team.",
    ),
    "harmful_role": Rule(
        roles.harmful_role,
        "worth below 0, beyond its interval",
        "{window} evaluations with evaluation.worth",
        "The most likely answers of the role are worse for the team than what it says otherwise: it learns from a reward that is not "
        "the team's, or of the wrong sign.",
        "Look at the role's rewards and at its lowest messages (Who earned it, on the Checkpoints page). Correct its reward, or set "
        'algorithm.team_reward_to = "team".',
        harms=True,
    ),
    "no_spread": Rule(
        episodes.no_spread,
        "share of groups with equal rewards",
        "{window} iterations",
        "The rewards of a group are equal, so all advantages are zero and the role does not learn: a reward that accepts or "
        "refuses every answer, one that ignores this role, or tasks that are already solved.",
        "Read a group on the transcripts: if different answers earn the same, correct the reward or pay the role. Otherwise "
        "use other tasks, or larger groups (rollout.group_size).",
    ),
    "truncation": Rule(
        episodes.truncation,
        "share of truncated responses",
        "{window} iterations",
        "Responses reach the token limit before they end, and incomplete responses are rewarded.",
        "Raise the limit of new tokens, or request shorter responses in the prompt.",
    ),
    "overlong": Rule(
        episodes.overlong,
        "episodes that ended early",
        "an episode that ended early",
        "A prompt leaves no room for an answer in the model's context: a long task, or a history that grows from turn to turn.",
        "Use a model or an engine with a longer context, remove such tasks, or lower environment.max_turns or sampling.max_tokens.",
    ),
    "mismatch": Rule(
        mean_above(
            "policy/*/mismatch_mean",
            "Generation and training of {whose} disagree on logprobs: mean distance {mean:.3g} nats",
            4.0,
        ),
        "mean distance of logprobs, nats",
        "{window} iterations",
        "Generation and training compute different probabilities for the same tokens: a different precision, kernel, template or version.",
        "Use the same precision and attention on both sides, and check that new weights arrive before sampling.",
        harms=True,
    ),
    "recompilation": Rule(
        median_above(
            "compilations",
            "Updates of {whose} compile {median:.3g} kernels in each iteration",
            "kernels per iteration",
        ),
        "kernels per iteration, median",
        "{window} iterations",
        "The widths of packed rows keep changing, or several policies compile kernels in one process; each compilation takes seconds.",
        'Set policies.*.learner.packed_attention = "mask", or a power of two as micro_batch_tokens; give each policy its own process.',
    ),
    "staleness": Rule(
        mean_above("rollout/staleness", "Training uses stale tokens: mean age {mean:.3g} versions", 3.0),
        "mean age of tokens, versions",
        "{window} iterations",
        "Generation lags behind training, so that updates are far off policy.",
        "Give generation more devices, or allow less lag.",
        harms=True,
    ),
    "overfitting": Rule(
        success.overfitting,
        "fall of held-out success below its best",
        "3 evaluations and 10 iterations",
        "The policy learns the training tasks, or a flaw of their reward, instead of the skill.",
        "Go back to the best checkpoint, use more training tasks, and compare transcripts of training and probes.",
    ),
    "success_fell": Rule(
        success.success_fell,
        "fall of held-out success below its best",
        "3 evaluations",
        "Updates have destroyed what the policy could do: too high a learning rate, a reward with the wrong sign, or rewards that pay "
        "for something else.",
        "Fork from the best checkpoint with a lower learning rate or a larger algorithm.kl_coefficient, and read transcripts from "
        "before and after the fall.",
    ),
    "return_rises_success_falls": Rule(
        success.return_rises_success_falls,
        "fall of training success below its best",
        "more than twice {window} iterations",
        "The policy earns reward without solving the tasks: a flaw of the reward, the wrong sign of one part, or shaping that "
        "outweighs success.",
        "Read the transcripts with the highest returns and the rewards by role, correct the reward, and fork from the best checkpoint.",
    ),
    "failed_episodes": Rule(
        episodes.share_of_episodes("rollout/failed", "{share:.0%} of training episodes fail"),
        "share of training episodes",
        "more than {window} iterations",
        "The environment, the reward function or the agent's program raises an error, or gives a reward that is not a number. "
        "Failed episodes are not trained on.",
        "Correct the error, which the transcripts of failed episodes show in full, and launch again.",
    ),
    "agent_errors": Rule(
        episodes.share_of_episodes(
            "rollout/agent_errors", "The agent ends with an error in {share:.0%} of training episodes"
        ),
        "share of training episodes",
        "more than {window} iterations",
        "The agent's program raises an error that counts as workflow.failure_reward: a mistake of the policy, a limit of turns or "
        "time, or a fault of the program itself.",
        "Read the error on the transcripts. Correct the program if the policy cannot avoid it; otherwise give the policy easier tasks, "
        "more turns or a clearer prompt.",
    ),
    "length_hacking": Rule(
        success.length_hacking,
        "tokens per episode, multiple of the first",
        "twice {window} iterations",
        "Longer episodes are rewarded, or not penalised, although they do not help.",
        "Look at the longest transcripts; remove the length from the reward, or average the loss by token.",
    ),
    "stalled_phase": Rule(
        liveness.stalled_phase,
        "seconds without metrics",
        "an active run",
        "A phase hangs: an environment, a worker or a device does not respond.",
        "Find the unfinished phase on the timeline and the last active worker in the logs; pause and resume the run.",
    ),
    "dead_worker": Rule(
        liveness.dead_worker,
        "seconds without a heartbeat",
        "an active run",
        "A process was killed (often for memory), or its machine or the network failed.",
        "Read the end of the logs; give the run more memory or smaller batches. "
        "It continues automatically from its last checkpoint while it has attempts left.",
    ),
    "lost_events": Rule(
        liveness.lost_events,
        "events",
        "an active run",
        "The disk of the run's folder was full, and the server did not take the events in time that were kept in memory.",
        "Free space on that disk. Values and transcripts are missing from then on; repeat the run if you need them.",
    ),
    "not_a_number": Rule(
        policies.not_a_number,
        "iterations with it",
        "one update",
        "Numbers overflowed, or a reward or probability was not a number; the optimizer skips such steps.",
        "If it recurs: lower the learning rate, train in fp32, and look at the rewards of that step.",
        harms=True,
    ),
}


def measure(settings: RunHealth, seen: HealthInputs) -> Iterator[tuple[str, Found]]:
    """Yield (rule, measurement) of every rule."""
    for name, rule in settings.rules().items():
        for measurement in RULES[name].check(seen, rule):
            yield name, measurement


def judge(settings: RunHealth, seen: HealthInputs) -> Iterator[tuple[str, Found]]:
    """Yield those whose value is above, or not well below, its bound."""
    return (pair for pair in measure(settings, seen) if pair[1].excess >= settings.relax)
