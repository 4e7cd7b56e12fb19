"""Rules over one metric of a policy, of a role or of the rollout: pure functions of what was observed."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from training_core.config import health as config
from webapp.health.observed import Curve, Figures, Found, Observed


def entropy_collapse(seen: Observed, rule: config.EntropyCollapse) -> Iterator[Found]:
    """Low, and far below what it was."""
    for key, policy, curve in seen.each("policy", "entropy"):
        if len(curve) < 2 * rule.window:
            continue
        now, before = _mean(curve, rule.window), float(np.mean(curve.values[: rule.window]))
        if now < rule.below and now < rule.share * before:
            figures: Figures = {"entropy now": now, "at first": before, "threshold": rule.below}
            title = f"Entropy of {policy} has collapsed: {now:.3g} nats per token, from {before:.3g}"
            yield _found(key, "bad", title, curve, rule.window, figures)


def kl_blow_up(seen: Observed, rule: config.KlBlowUp) -> Iterator[Found]:
    """Far from the base model; bad at three times the threshold."""
    for key, policy, curve in seen.each("policy", "kl"):
        yield from _above(key, curve, rule, f"{policy} is far from its base model: KL", "nats per token", 3.0)


def ratio_tails(seen: Observed, rule: config.RatioTails) -> Iterator[Found]:
    """The median of the largest ratios; bad at ten times the threshold."""
    for key, policy, curve in seen.each("policy", "ratio_max"):
        if len(curve) < rule.window:
            continue
        now = float(np.median(curve.tail(rule.window).values))
        if now > rule.above:
            figures: Figures = {"largest ratio (median)": now, "threshold": rule.above}
            title = f"Probability ratios of {policy} have long tails: up to {now:.3g}"
            severity = "bad" if now > 10 * rule.above else "warn"
            yield _found(key, severity, title, curve, rule.window, figures)


def clip_fraction(seen: Observed, rule: config.ClipFraction) -> Iterator[Found]:
    """Many tokens are clipped."""
    for key, policy, curve in seen.each("policy", "clip_fraction"):
        yield from _above(key, curve, rule, f"Many tokens of {policy} are clipped: share", "of tokens", 2.0)


def gradient_norm(seen: Observed, rule: config.GradientNorm) -> Iterator[Found]:
    """One of the last five norms, against the median of the twenty before them."""
    for key, policy, curve in seen.each("policy", "grad_norm"):
        if len(curve) < 10:
            continue
        usual, latest = float(np.median(curve.values[-25:-5])), curve.tail(5)
        place = int(np.argmax(latest.values))
        peak, step = float(latest.values[place]), int(latest.steps[place])
        if peak >= rule.least and peak > rule.times * usual:
            figures: Figures = {"gradient norm": peak, "usual (median)": usual, "times": rule.times}
            title = f"Gradient of {policy} jumped to {peak:.3g} at step {step}; {usual:.3g} is usual"
            yield Found(key, "warn", title, step, step, figures, (key,))


def too_easy(seen: Observed, rule: config.GroupShare) -> Iterator[Found]:
    """Groups in which every candidate is as good as it gets."""
    for key, role, curve in seen.each("groups", "too_easy"):
        yield from _above(key, curve, rule, f"Most groups of {role} are too easy: share", "of groups", 9.0)


def too_hard(seen: Observed, rule: config.GroupShare) -> Iterator[Found]:
    """Groups in which no candidate gets anything."""
    for key, role, curve in seen.each("groups", "too_hard"):
        yield from _above(key, curve, rule, f"Most groups of {role} are too hard: share", "of groups", 9.0)


def truncation(seen: Observed, rule: config.Truncation) -> Iterator[Found]:
    """Answers that end at the token limit."""
    key = "rollout/truncated"
    yield from _above(key, seen.one(key), rule, "Many answers are cut: share", "of answers", 2.5)


def mismatch(seen: Observed, rule: config.Mismatch) -> Iterator[Found]:
    """The mean distance between the engine's and the learner's logprobs at the same weights; bad at four times the threshold."""
    for key, policy, curve in seen.each("policy", "mismatch_mean"):
        title = f"Generation and training of {policy} disagree about logprobs: mean distance"
        yield from _above(key, curve, rule, title, "nats", 4.0)


def staleness(seen: Observed, rule: config.Staleness) -> Iterator[Found]:
    """Old tokens."""
    key = "rollout/staleness"
    yield from _above(key, seen.one(key), rule, "Training uses stale tokens: mean age", "versions", 3.0)


def not_a_number(seen: Observed, rule: config.NotANumber) -> Iterator[Found]:
    """NaN or infinity in what an update computes; bad while it is the latest value."""
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
            what = "updates were skipped" if name == "skipped_steps" else f"{name} is no number"
            figures: Figures = {"iterations with it": int(wrong.sum()), "of the latest": len(curve)}
            title = f"{policy}: {what}, last at step {steps[-1]}"
            yield Found(
                key, "bad" if wrong[-1] else "warn", title, int(steps[0]), int(steps[-1]), figures, (key,)
            )


class Threshold(Protocol):
    """Rules that compare a mean with a bound."""

    @property
    def window(self) -> int:
        """How many are averaged."""

    @property
    def above(self) -> float:
        """The bound."""


def _above(key: str, curve: Curve, rule: Threshold, words: str, unit: str, bad_at: float) -> Iterator[Found]:
    """The mean of the latest iterations is above the threshold; bad at `bad_at` times it."""
    above = rule.above
    if len(curve) < rule.window:
        return
    now = _mean(curve, rule.window)
    if now > above:
        figures: Figures = {"mean of the latest": now, "iterations": rule.window, "threshold": above}
        title = f"{words} {now:.3g} {unit}".strip()
        yield _found(key, "bad" if now > bad_at * above else "warn", title, curve, rule.window, figures)


def _mean(curve: Curve, count: int) -> float:
    return float(np.mean(curve.tail(count).values))


def _found(key: str, severity: str, title: str, curve: Curve, count: int, figures: Figures) -> Found:
    latest = curve.tail(count)
    return Found(key, severity, title, int(latest.steps[0]), int(latest.steps[-1]), figures, (key,))
