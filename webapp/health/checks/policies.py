"""Checks of updates, one policy at a time."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from training_core.config import health as config
from webapp.health.checks.common import found, mean, ratio, solved
from webapp.health.inputs import Figures, Found, HealthInputs

UPDATE_METRICS = (
    "loss", "grad_norm", "kl", "entropy", "ratio_mean", "ratio_max", "mismatch_kl", "skipped_steps",
)  # fmt: skip
"""Results of an update."""


def entropy_collapse(seen: HealthInputs, rule: config.EntropyCollapse) -> Iterator[Found]:
    """Measures low entropy, far below its initial value, while the tasks are not solved."""
    note = solved(seen, rule.unless_success)
    for key, policy, curve in seen.each("policy", "entropy"):
        if len(curve) < 2 * rule.window:
            continue
        now, before = mean(curve, rule.window), float(np.mean(curve.values[: rule.window]))
        figures: Figures = {"entropy now": now, "at first": before, "threshold": rule.below}
        title = f"Entropy of {policy} has collapsed: {now:.3g} nats per token, from {before:.3g}"
        bound = min(rule.below, rule.share * before)
        excess = 0.0 if note else ratio(bound, now)
        yield found(
            key,
            title,
            curve,
            rule.window,
            figures,
            now,
            bound,
            excess=excess,
            critical_at=1.0,
            note=note,
            below=True,
        )


def gradient_norm(seen: HealthInputs, rule: config.GradientNorm) -> Iterator[Found]:
    """Compares the median of the latest norms with the median of the twenty before them: clipping bounds the step of one batch."""
    for key, policy, curve in seen.each("policy", "grad_norm"):
        if len(curve) < rule.window + 5:
            continue
        usual = float(np.median(curve.values[-rule.window - 20 : -rule.window]))
        now = float(np.median(curve.tail(rule.window).values))
        figures: Figures = {"gradient norm (median)": now, "usual (median)": usual, "times": rule.times}
        title = f"Gradients of {policy} have grown to {now:.3g}; the usual norm is {usual:.3g}"
        yield found(key, title, curve, rule.window, figures, now, max(rule.times * usual, rule.least))


def unchanged_policy(seen: HealthInputs, rule: config.UnchangedPolicy) -> Iterator[Found]:
    """Measures updates that leave the weights as they are, while the tasks are not solved."""
    note = solved(seen, rule.unless_success)
    for key, policy, curve in seen.each("policy", "weight_change"):
        if len(curve) < rule.window:
            continue
        now = mean(curve, rule.window)
        figures: Figures = {"relative change of the weights": now, "threshold": rule.below}
        rates = seen.one(f"policy/{policy}/lr")
        if len(rates):
            figures["learning rate"] = float(rates.values[-1])
        title = f"Updates of {policy} do not change its weights: {now:.3g} of their norm"
        excess = 0.0 if note else ratio(rule.below, now)
        yield found(
            key,
            title,
            curve,
            rule.window,
            figures,
            now,
            rule.below,
            excess=excess,
            critical_at=1.0,
            note=note,
            below=True,
        )


def not_a_number(seen: HealthInputs, rule: config.NotANumber) -> Iterator[Found]:
    """Detects NaN or infinity in the results of an update; critical while it is the latest value."""
    for name in UPDATE_METRICS:
        for key, policy, _ in seen.each("policy", name):
            curve = seen.curves[key].tail(rule.within)
            if not len(curve):
                continue
            wrong = curve.values > 0 if name == "skipped_steps" else ~np.isfinite(curve.values)
            count = int(wrong.sum())
            what = "updates were skipped" if name == "skipped_steps" else f"{name} is not a number"
            figures: Figures = {"iterations with it": count, "of the latest": len(curve)}
            steps = curve.steps[wrong] if count else curve.steps[-1:]
            title = f"{policy}: {what}, last at step {steps[-1]}"
            one = found(
                key,
                title,
                curve,
                len(curve),
                figures,
                float(count),
                0.0,
                critical_at=1.0 if wrong[-1] else inf,
            )
            yield replace(one, first=int(steps[0]), last=int(steps[-1]))
