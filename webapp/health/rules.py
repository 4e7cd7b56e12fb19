"""The health rules, by the name of their config section: each with a pure function of the observed metrics, a cause and a remedy.

A function yields its measurement with the excess over the bound, also below it: the caller decides whether there is a finding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Protocol

import numpy as np

from training_core.config import health as config
from training_core.config.health import RunHealth
from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail

Check = Callable[[HealthInputs, Any], Iterator[Found]]
UPDATE_METRICS = (
    "loss", "grad_norm", "kl", "entropy", "ratio_mean", "ratio_max", "mismatch_kl", "skipped_steps",
)  # fmt: skip
"""Results of an update."""
RECENT = 5
"""Number of iterations over which training success is averaged."""


def entropy_collapse(seen: HealthInputs, rule: config.EntropyCollapse) -> Iterator[Found]:
    """Measures low entropy, far below its initial value, while the tasks are not solved."""
    if solved(seen, rule.unless_success):
        return
    for key, policy, curve in seen.each("policy", "entropy"):
        if len(curve) < 2 * rule.window:
            continue
        now, before = _mean(curve, rule.window), float(np.mean(curve.values[: rule.window]))
        figures: Figures = {"entropy now": now, "at first": before, "threshold": rule.below}
        title = f"Entropy of {policy} has collapsed: {now:.3g} nats per token, from {before:.3g}"
        excess = min(_ratio(rule.below, now), _ratio(rule.share * before, now))
        yield _found(key, title, curve, rule.window, figures, excess, critical_at=1.0)


def gradient_norm(seen: HealthInputs, rule: config.GradientNorm) -> Iterator[Found]:
    """Compares the median of the latest norms with the median of the twenty before them: clipping bounds the step of one batch."""
    for key, policy, curve in seen.each("policy", "grad_norm"):
        if len(curve) < rule.window + 5:
            continue
        usual = float(np.median(curve.values[-rule.window - 20 : -rule.window]))
        now = float(np.median(curve.tail(rule.window).values))
        if now >= rule.least:
            figures: Figures = {"gradient norm (median)": now, "usual (median)": usual, "times": rule.times}
            title = f"Gradients of {policy} have grown to {now:.3g}; the usual norm is {usual:.3g}"
            yield _found(
                key, title, curve, rule.window, figures, _ratio(now, rule.times * usual), critical_at=inf
            )


def too_easy(seen: HealthInputs, rule: config.TooEasy) -> Iterator[Found]:
    """Measures the share of groups in which every candidate has the maximum reward, while the tasks are not solved."""
    if not solved(seen, rule.unless_success):
        yield from mean_above("groups/*/too_easy", "{mean:.0%} of {whose}'s groups are too easy")(seen, rule)


def overlong(seen: HealthInputs, rule: config.Overlong) -> Iterator[Found]:
    """Detects episodes that ended at a prompt without room for an answer. The metrics exist only in iterations with some."""
    for play in ("rollout", "eval", "eval_sampled"):
        key = f"{play}/overlong"
        curve = seen.one(key)
        recent = (curve.steps > seen.latest - rule.within) & (curve.values > 0)
        if not recent.any():
            continue
        steps, episodes = curve.steps[recent], int(curve.values[recent].sum())
        title = f"{episodes} episode{'s' * (episodes != 1)} ended early: a prompt filled the model's context"
        figures: Figures = {"episodes": episodes, "of the latest iterations": rule.within}
        yield Found(key, title, int(steps[0]), int(steps[-1]), figures, (key,))


def not_a_number(seen: HealthInputs, rule: config.NotANumber) -> Iterator[Found]:
    """Detects NaN or infinity in the results of an update; critical while it is the latest value."""
    for name in UPDATE_METRICS:
        for key, policy, _ in seen.each("policy", name):
            curve = seen.curves[key].tail(rule.within)
            wrong = curve.values > 0 if name == "skipped_steps" else ~np.isfinite(curve.values)
            if not wrong.any():
                continue
            steps = curve.steps[wrong]
            what = "updates were skipped" if name == "skipped_steps" else f"{name} is not a number"
            figures: Figures = {"iterations with it": int(wrong.sum()), "of the latest": len(curve)}
            title, critical_at = f"{policy}: {what}, last at step {steps[-1]}", 1.0 if wrong[-1] else inf
            yield Found(key, title, int(steps[0]), int(steps[-1]), figures, (key,), critical_at=critical_at)


def solved(seen: HealthInputs, bound: float) -> bool:
    """Whether the latest held-out success, or recent training success, has reached the bound."""
    held, train = seen.one("eval/success"), seen.one("train/success")
    latest = [float(held.values[-1])] if len(held) else []
    latest += [_mean(train, RECENT)] if len(train) else []
    return bool(latest) and max(latest) >= bound


class Threshold(Protocol):
    """Rules that compare a mean with a bound."""

    @property
    def window(self) -> int:
        """Number of averaged iterations."""

    @property
    def above(self) -> float:
        """The bound."""


def mean_above(metric: str, title: str, critical_at: float = inf) -> Check:
    """Return the rule that the mean of the latest values of a metric is above a bound; critical at `critical_at` times it.

    metric: a key; `*` in it stands for each policy or role. title: a format of `whose` (that name) and `mean`.
    """
    start, several, name = metric.partition("/*/")

    def check(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
        for key, whose, curve in seen.each(start, name) if several else [(metric, "", seen.one(metric))]:
            if len(curve) < rule.window:
                continue
            now = _mean(curve, rule.window)
            figures: Figures = {"mean of the latest": now, "iterations": rule.window, "threshold": rule.above}
            words = title.format(whose=whose, mean=now)
            yield _found(key, words, curve, rule.window, figures, _ratio(now, rule.above), critical_at)

    return check


def truncation(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
    """Measures the share of truncated responses of each role; that of the team in runs of versions without the metric by role."""
    by_role = any(seen.each("rollout", "truncated"))
    metric = "rollout/*/truncated" if by_role else "rollout/truncated"
    whose = "{whose}'s responses" if by_role else "responses"
    yield from mean_above(metric, f"{{mean:.0%}} of {whose} are truncated", 2.5)(seen, rule)


def median_above(name: str, title: str, figure: str, critical_at: float = inf) -> Check:
    """Return the rule that the median of a policy's latest values of a metric is above a bound: single iterations do not count.

    title: a format of `whose` and `median`. figure: the median in words.
    """

    def check(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
        for key, whose, curve in seen.each("policy", name):
            if len(curve) < rule.window:
                continue
            now = float(np.median(curve.tail(rule.window).values))
            figures: Figures = {f"{figure} (median)": now, "threshold": rule.above}
            words = title.format(whose=whose, median=now)
            yield _found(key, words, curve, rule.window, figures, _ratio(now, rule.above), critical_at)

    return check


def _ratio(figure: float, bound: float) -> float:
    """Return figure / bound; infinite if a bound of 0 is exceeded."""
    if bound > 0:
        return figure / bound
    return inf if figure > 0 else 0.0


def _mean(curve: SeriesTail, count: int) -> float:
    return float(np.mean(curve.tail(count).values))


def _found(
    key: str, title: str, curve: SeriesTail, count: int, figures: Figures, excess: float, critical_at: float
) -> Found:
    latest = curve.tail(count)
    return Found(
        key, title, int(latest.steps[0]), int(latest.steps[-1]), figures, (key,), excess, critical_at
    )


def overfitting(seen: HealthInputs, rule: config.Overfitting) -> Iterator[Found]:
    """Fires if the last two evaluations are well below the best, and training success has risen since the best."""
    held, train = seen.one("eval/success"), seen.one("train/success")
    if len(held) < 3 or len(train) < 10:
        return
    index = int(np.argmax(held.values))
    best, step, now = float(held.values[index]), int(held.steps[index]), float(held.values[-2:].max())
    if best - now <= 0:
        return
    then, since = train.steps <= step, train.steps > step
    if then.sum() == 0 or since.sum() < 3:
        return
    gained = float(np.mean(train.tail(5).values) - np.mean(train.values[then][-5:]))
    if gained >= rule.rises:
        figures: Figures = {
            "best held-out": best,
            "held-out now": float(held.values[-1]),
            "gained in training": gained,
        }
        title = f"Held-out success fell from {best:.3g} to {held.values[-1]:.3g} while training success rose"
        yield Found(
            "eval/success",
            title,
            step,
            int(held.steps[-1]),
            figures,
            ("eval/success", "train/success"),
            (best - now) / rule.falls,
            critical_at=1.0,
        )


def success_fell(seen: HealthInputs, rule: config.SuccessFell) -> Iterator[Found]:
    """Compares the last two evaluations with the best one before them, and the fall with its standard error."""
    held = seen.one("eval/success")
    if len(held) < 3:
        return
    index, count = int(np.argmax(held.values[:-2])), seen.evaluated
    best, step, now = float(held.values[index]), int(held.steps[index]), _mean(held, 2)
    pooled = (best + 2 * now) / 3
    error = sqrt(pooled * (1 - pooled) * 1.5 / count)
    figures: Figures = {"best": best, "at step": step, "now": now, "standard error": error}
    least = best - float(held.values[-2:].max())
    excess = min(least / rule.falls, _ratio(best - now, rule.errors * error))
    title, last = f"Held-out success fell from {best:.3g} to {now:.3g}", int(held.steps[-1])
    yield Found("eval/success", title, step, last, figures, ("eval/success",), excess, critical_at=2.0)


def return_rises_success_falls(seen: HealthInputs, rule: config.ReturnWithoutSuccess) -> Iterator[Found]:
    """Compares the latest iterations with those of the highest mean success."""
    success, returns = seen.one("train/success"), seen.one("train/return")
    steps, ours, theirs = np.intersect1d(success.steps, returns.steps, return_indices=True)
    means = _rolling(SeriesTail(steps, success.values[ours]), rule.window)
    if len(means) <= rule.window:
        return
    index = int(np.argmax(means.values[: -rule.window]))
    fall = float(means.values[index] - means.values[-1])
    earned = returns.values[theirs]
    then, now = earned[index : index + rule.window], float(earned[-rule.window :].mean())
    excess = min(fall / rule.falls, _ratio(now - float(then.mean()), rule.rises * float(then.std())))
    figures: Figures = {
        "success at its best": float(means.values[index]),
        "success now": float(means.values[-1]),
        "return then": float(then.mean()),
        "return now": now,
    }
    title = f"The return rose from {then.mean():.3g} to {now:.3g} while success fell by {fall:.3g}"
    series = ("train/return", "train/success")
    yield Found("train/return", title, int(steps[index]), int(steps[-1]), figures, series, excess, 1.0)


def failed_episodes(seen: HealthInputs, rule: config.FailedEpisodes) -> Iterator[Found]:
    """Measures the share of training episodes that failed, with their commonest error."""
    failed, episodes = seen.one("rollout/failed"), seen.one("progress/episodes")
    steps, ours, theirs = np.intersect1d(failed.steps, episodes.steps, return_indices=True)
    if len(steps) <= rule.window:
        return
    count = float(failed.values[ours][-rule.window :].sum())
    played = float(episodes.values[theirs[-1]] - episodes.values[theirs[-1 - rule.window]])
    share = _ratio(count, played)
    figures: Figures = {"failed episodes": count, "of": played, "threshold": rule.above}
    if seen.error:
        figures["commonest error"] = seen.error
    title = f"{share:.0%} of training episodes fail" + (f": {seen.error}" if seen.error else "")
    first, last = int(steps[-rule.window]), int(steps[-1])
    yield Found("rollout/failed", title, first, last, figures, ("rollout/failed",), share / rule.above, 5.0)


def _rolling(curve: SeriesTail, count: int) -> SeriesTail:
    """Return the means of `count` points in a row, each at the step of the first; empty if there are fewer."""
    if len(curve) < count:
        return SeriesTail(curve.steps[:0], curve.values[:0])
    means = np.convolve(curve.values, np.full(count, 1 / count), "valid")
    return SeriesTail(curve.steps[: len(means)], means)


def length_hacking(seen: HealthInputs, rule: config.LengthHacking) -> Iterator[Found]:
    """Compares tokens per episode at both ends of the observed steps with the gain in success."""
    spent, success = _tokens_per_episode(seen), seen.one("train/success")
    if len(spent) < 2 * rule.window or len(success) < 2 * rule.window:
        return
    count = rule.window
    before, now = float(np.mean(spent.values[:count])), float(np.mean(spent.values[-count:]))
    gain = float(np.mean(success.values[-count:]) - np.mean(success.values[:count]))
    if before > 0 and now > rule.times * before and gain < rule.gain:
        figures: Figures = {"tokens per episode": now, "at first": before, "gain in success": gain}
        title = f"Episodes grew from {before:.3g} to {now:.3g} tokens without a higher success"
        first, last = int(spent.steps[0]), int(spent.steps[-1])
        yield Found("progress/tokens", title, first, last, figures, ("progress/tokens", "train/success"))


def stalled_phase(seen: HealthInputs, rule: config.StalledPhase) -> Iterator[Found]:
    """Fires if there are no metrics for long although the driver sends heartbeats."""
    idle, usual = seen.vitals.idle, seen.vitals.usual
    if idle is not None and idle > max(rule.least, rule.times * (usual or 0.0)):
        figures: Figures = {"seconds without metrics": idle, "usual seconds": usual or 0.0}
        title = f"No iteration has ended for {idle:.0f} s, although the driver is alive"
        yield Found("progress", title, seen.step, seen.step, figures, (), critical_at=1.0)


def dead_worker(seen: HealthInputs, rule: config.DeadWorker) -> Iterator[Found]:
    """Fires on silence of the driver, or on attempts that died."""
    silent, lost = seen.vitals.silent, seen.vitals.lost
    if silent is not None and silent > rule.silence:
        title = f"The driver has not reported for {silent:.0f} s"
        figures: Figures = {"seconds of silence": silent}
        yield Found("driver", title, seen.step, seen.step, figures, (), critical_at=1.0)
    for number in lost:
        figures = {"attempt": number, "reason": seen.vitals.reasons.get(number, "")[:400]}
        title = f"Attempt {number} ended with an error"
        yield Found(f"attempt {number}", title, seen.step, seen.step, figures, ())


def lost_events(seen: HealthInputs, rule: config.LostEvents) -> Iterator[Found]:
    """Fires if the run's programs could neither write nor deliver some of their events."""
    if count := seen.vitals.lost_events:
        title = f"{count:,} events of this run are lost, because its disk was full"
        yield Found("disk", title, seen.step, seen.step, {"lost events": count}, ())


def _tokens_per_episode(seen: HealthInputs) -> SeriesTail:
    """Return differences of the two counters, at the steps that have both."""
    tokens, episodes = seen.one("progress/tokens"), seen.one("progress/episodes")
    steps, ours, theirs = np.intersect1d(tokens.steps, episodes.steps, return_indices=True)
    spent, played = np.diff(tokens.values[ours]), np.diff(episodes.values[theirs])
    valid = played > 0
    return SeriesTail(steps[1:][valid], spent[valid] / played[valid])


@dataclass(frozen=True)
class Rule:
    """A check with the texts of its findings."""

    check: Check
    """Function of the observed input and the settings of the rule."""
    cause: str
    remedy: str


RULES: dict[str, Rule] = {
    "entropy_collapse": Rule(
        entropy_collapse,
        "The policy has become almost deterministic, so the candidates of a group are equal and give no learning signal.",
        "Fork from a checkpoint before the fall with a larger algorithm.entropy_coefficient or algorithm.clip_high, "
        "or a lower learning rate.",
    ),
    "kl_blow_up": Rule(
        mean_above("policy/*/kl", "{whose} is far from its base model: KL {mean:.3g} nats per token", 3.0),
        "The updates move the policy far from its base model: too high a learning rate, or a reward that can be gamed.",
        "Lower the learning rate, raise algorithm.kl_coefficient, and read transcripts of the latest iterations.",
    ),
    "policy_shift": Rule(
        mean_above("policy/*/kl", "Updates change {whose} strongly: KL {mean:.3g} nats per action", 3.0),
        "The policy after an update is far from the one that sampled the data: the learning rate or the number of passes is too high.",
        "Lower the learning rate or policies.*.learner.epochs, or set algorithm.target_kl so that passes end early.",
    ),
    "ratio_tails": Rule(
        median_above(
            "ratio_max",
            "Probability ratios of {whose} have long tails: up to {median:.3g}",
            "largest ratio",
            critical_at=10.0,
        ),
        "Some tokens are far more likely now than when they were sampled: stale data, too many epochs, or two engines that disagree.",
        "Use fewer epochs or minibatches per iteration, keep algorithm.dual_clip on, and look at the mismatch and staleness.",
    ),
    "clip_fraction": Rule(
        mean_above("policy/*/clip_fraction", "{mean:.0%} of {whose}'s data is clipped", 2.0),
        "Updates are larger than the clip range, so much of the data has no gradient.",
        "Lower the learning rate or the number of epochs.",
    ),
    "gradient_norm": Rule(
        gradient_norm,
        "Gradients of several batches in a row are far larger than usual: the start of a divergence, or outliers in rewards or lengths.",
        "Look at the transcripts of these steps. Lower the learning rate or the bound of gradient clipping.",
    ),
    "too_easy": Rule(
        too_easy,
        "Every candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use harder tasks; the role has mastered these.",
    ),
    "too_hard": Rule(
        mean_above("groups/*/too_hard", "{mean:.0%} of {whose}'s groups are too hard"),
        "No candidate succeeds, so all advantages are zero and the role does not learn.",
        "Use easier tasks at first, larger groups (rollout.group_size), or a base model that succeeds sometimes.",
    ),
    "truncation": Rule(
        truncation,
        "Responses reach the token limit before they end, and incomplete responses are rewarded.",
        "Raise the limit of new tokens, or request shorter responses in the prompt.",
    ),
    "overlong": Rule(
        overlong,
        "A prompt leaves no room for an answer in the model's context: a long task, or a history that grows from turn to turn.",
        "Use a model or an engine with a longer context, remove such tasks, or lower environment.max_turns or sampling.max_tokens.",
    ),
    "mismatch": Rule(
        mean_above(
            "policy/*/mismatch_mean",
            "Generation and training of {whose} disagree on logprobs: mean distance {mean:.3g} nats",
            4.0,
        ),
        "Generation and training compute different probabilities for the same tokens: a different precision, kernel, template or version.",
        "Use the same precision and attention on both sides, and check that new weights arrive before sampling.",
    ),
    "recompilation": Rule(
        median_above(
            "compilations",
            "Updates of {whose} compile {median:.3g} kernels in each iteration",
            "kernels per iteration",
        ),
        "The widths of packed rows keep changing, or several policies compile kernels in one process; each compilation takes seconds.",
        'Set policies.*.learner.packed_attention = "mask", or a power of two as micro_batch_tokens; give each policy its own process.',
    ),
    "staleness": Rule(
        mean_above("rollout/staleness", "Training uses stale tokens: mean age {mean:.3g} versions", 3.0),
        "Generation lags behind training, so that updates are far off policy.",
        "Give generation more devices, or allow less lag.",
    ),
    "overfitting": Rule(
        overfitting,
        "The policy learns the training tasks, or a flaw of their reward, instead of the skill.",
        "Go back to the best checkpoint, use more training tasks, and compare transcripts of training and probes.",
    ),
    "success_fell": Rule(
        success_fell,
        "Updates have destroyed what the policy could do: too high a learning rate, a reward with the wrong sign, or rewards that pay "
        "for something else.",
        "Fork from the best checkpoint with a lower learning rate or a larger algorithm.kl_coefficient, and read transcripts from "
        "before and after the fall.",
    ),
    "return_rises_success_falls": Rule(
        return_rises_success_falls,
        "The policy earns reward without solving the tasks: a flaw of the reward, the wrong sign of one part, or shaping that "
        "outweighs success.",
        "Read the transcripts with the highest returns and the rewards by role, correct the reward, and fork from the best checkpoint.",
    ),
    "failed_episodes": Rule(
        failed_episodes,
        "The environment, the reward function or the agent's program raises an error, or gives a reward that is not a number. "
        "Failed episodes are not trained on.",
        "Correct the error, which the transcripts of failed episodes show in full, and launch again.",
    ),
    "length_hacking": Rule(
        length_hacking,
        "Longer episodes are rewarded, or not penalised, although they do not help.",
        "Look at the longest transcripts; remove the length from the reward, or average the loss by token.",
    ),
    "stalled_phase": Rule(
        stalled_phase,
        "A phase hangs: an environment, a worker or a device does not respond.",
        "Find the unfinished phase on the timeline and the last active worker in the logs; pause and resume the run.",
    ),
    "dead_worker": Rule(
        dead_worker,
        "A process was killed (often for memory), or its machine or the network failed.",
        "Read the end of the logs; give the run more memory or smaller batches. "
        "It continues automatically from its last checkpoint while it has attempts left.",
    ),
    "lost_events": Rule(
        lost_events,
        "The disk of the run's folder was full, and the server did not take the events in time that were kept in memory.",
        "Free space on that disk. Values and transcripts are missing from then on; repeat the run if you need them.",
    ),
    "not_a_number": Rule(
        not_a_number,
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
