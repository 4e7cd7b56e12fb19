"""Rules over one metric of a policy, of a role or of the rollout: pure functions of the observed input.

Each yields its measurement with its excess over the bound, also below the bound: the caller decides whether it fires.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Protocol

import numpy as np

from training_core.config import health as config
from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail

VALUE, SHARE = "\0value", "\0share"
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


def kl_blow_up(seen: HealthInputs, rule: config.KlBlowUp) -> Iterator[Found]:
    """Measures the distance from the base model; critical at three times the threshold."""
    for key, policy, curve in seen.each("policy", "kl"):
        title = f"{policy} is far from its base model: KL {VALUE} nats per token"
        yield from _above(key, curve, rule, title, 3.0)


def policy_shift(seen: HealthInputs, rule: config.PolicyShift) -> Iterator[Found]:
    """Measures the distance between the policies after and before an update; critical at three times the threshold."""
    for key, policy, curve in seen.each("policy", "kl"):
        title = f"Updates change {policy} strongly: KL {VALUE} nats per action"
        yield from _above(key, curve, rule, title, 3.0)


def ratio_tails(seen: HealthInputs, rule: config.RatioTails) -> Iterator[Found]:
    """Measures the median of the largest ratios; critical at ten times the threshold."""
    for key, policy, curve in seen.each("policy", "ratio_max"):
        if len(curve) < rule.window:
            continue
        now = float(np.median(curve.tail(rule.window).values))
        figures: Figures = {"largest ratio (median)": now, "threshold": rule.above}
        title = f"Probability ratios of {policy} have long tails: up to {now:.3g}"
        yield _found(key, title, curve, rule.window, figures, now / rule.above, critical_at=10.0)


def clip_fraction(seen: HealthInputs, rule: config.ClipFraction) -> Iterator[Found]:
    """Measures the clipped share of the data."""
    for key, policy, curve in seen.each("policy", "clip_fraction"):
        yield from _above(key, curve, rule, f"{SHARE} of {policy}'s data is clipped", 2.0)


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
        for key, role, curve in seen.each("groups", "too_easy"):
            yield from _above(key, curve, rule, f"{SHARE} of {role}'s groups are too easy", inf)


def too_hard(seen: HealthInputs, rule: config.GroupShare) -> Iterator[Found]:
    """Measures the share of groups in which every candidate has no reward."""
    for key, role, curve in seen.each("groups", "too_hard"):
        yield from _above(key, curve, rule, f"{SHARE} of {role}'s groups are too hard", inf)


def truncation(seen: HealthInputs, rule: config.Truncation) -> Iterator[Found]:
    """Measures the share of responses that end at the token limit."""
    key = "rollout/truncated"
    yield from _above(key, seen.one(key), rule, f"{SHARE} of responses are truncated", 2.5)


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


def mismatch(seen: HealthInputs, rule: config.Mismatch) -> Iterator[Found]:
    """Measures the mean distance between the engine's and the learner's logprobs at equal weights; critical at four times the threshold."""
    for key, policy, curve in seen.each("policy", "mismatch_mean"):
        title = f"Generation and training of {policy} disagree on logprobs: mean distance {VALUE} nats"
        yield from _above(key, curve, rule, title, 4.0)


def staleness(seen: HealthInputs, rule: config.Staleness) -> Iterator[Found]:
    """Old tokens."""
    key = "rollout/staleness"
    yield from _above(key, seen.one(key), rule, f"Training uses stale tokens: mean age {VALUE} versions", 3.0)


def not_a_number(seen: HealthInputs, rule: config.NotANumber) -> Iterator[Found]:
    """Detects NaN or infinity in the results of an update; critical while it is the latest value."""
    for name in (
        "loss",
        "grad_norm",
        "kl",
        "entropy",
        "ratio_mean",
        "ratio_max",
        "mismatch_kl",
        "skipped_steps",
    ):
        for key, policy, _ in seen.each("policy", name):
            curve = seen.curves[key].tail(rule.within)
            wrong = curve.values > 0 if name == "skipped_steps" else ~np.isfinite(curve.values)
            if not wrong.any():
                continue
            steps = curve.steps[wrong]
            what = "updates were skipped" if name == "skipped_steps" else f"{name} is not a number"
            figures: Figures = {"iterations with it": int(wrong.sum()), "of the latest": len(curve)}
            measurement = Found(
                key,
                f"{policy}: {what}, last at step {steps[-1]}",
                int(steps[0]),
                int(steps[-1]),
                figures,
                (key,),
            )
            yield replace(measurement, critical_at=1.0) if wrong[-1] else measurement


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


def _above(key: str, curve: SeriesTail, rule: Threshold, title: str, critical_at: float) -> Iterator[Found]:
    """Compare the mean of the latest iterations with the threshold; critical at `critical_at` times it.

    In `title`, VALUE and SHARE stand for that mean, as a number or in percent.
    """
    above = rule.above
    if len(curve) < rule.window:
        return
    now = _mean(curve, rule.window)
    figures: Figures = {"mean of the latest": now, "iterations": rule.window, "threshold": above}
    excess = _ratio(now, above)
    yield _found(
        key,
        title.replace(VALUE, f"{now:.3g}").replace(SHARE, f"{now:.0%}"),
        curve,
        rule.window,
        figures,
        excess,
        critical_at,
    )


def _ratio(figure: float, bound: float) -> float:
    """Return figure / bound; infinite if a bound of 0 is exceeded."""
    if bound > 0:
        return figure / bound
    return inf if figure > 0 else 0.0


def _mean(curve: SeriesTail, count: int) -> float:
    return float(np.mean(curve.tail(count).values))


def _found(
    key: str,
    title: str,
    curve: SeriesTail,
    count: int,
    figures: Figures,
    excess: float,
    critical_at: float,
) -> Found:
    latest = curve.tail(count)
    return Found(
        key, title, int(latest.steps[0]), int(latest.steps[-1]), figures, (key,), excess, critical_at
    )
