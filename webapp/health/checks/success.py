"""Checks of success against the return, training and its best."""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from training_core.config import health as config
from webapp.health.checks.common import RECENT, mean, ratio, rolling
from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail

HELD, TRAIN = "eval/success", "train/success"


def overfitting(seen: HealthInputs, rule: config.Overfitting) -> Iterator[Found]:
    """Fires if the last two evaluations are well below the best, and training success has risen since the best."""
    held, train = seen.one(HELD), seen.one(TRAIN)
    if len(held) < 3 or len(train) < 10:
        return
    index = int(np.argmax(held.values))
    best, step, fall = float(held.values[index]), int(held.steps[index]), 0.0
    fall = max(best - float(held.values[-2:].max()), 0.0)
    then, since = train.steps <= step, train.steps > step
    gained, note = 0.0, "success in training has not risen since the best evaluation"
    if then.sum() and since.sum() >= 3:
        gained = float(np.mean(train.tail(5).values) - np.mean(train.values[then][-5:]))
        note = "" if gained >= rule.rises else note
    figures: Figures = {
        "best held-out": best,
        "held-out now": float(held.values[-1]),
        "gained in training": gained,
    }
    title = f"Held-out success fell from {best:.3g} to {held.values[-1]:.3g} while training success rose"
    excess = 0.0 if note else fall / rule.falls
    last = int(held.steps[-1])
    yield Found(HELD, title, step, last, figures, (HELD, TRAIN), fall, rule.falls, excess, 1.0, note)


def success_fell(seen: HealthInputs, rule: config.SuccessFell) -> Iterator[Found]:
    """Compares the last two evaluations with the best one before them, and the fall with its standard error."""
    held = seen.one(HELD)
    if len(held) < 3:
        return
    index, count = int(np.argmax(held.values[:-2])), seen.evaluated
    best, step, now = float(held.values[index]), int(held.steps[index]), mean(held, 2)
    error = standard_error(best, count, now, 2 * count)
    figures: Figures = {"best": best, "at step": step, "now": now, "standard error": error}
    least = best - float(held.values[-2:].max())
    excess = min(least / rule.falls, ratio(best - now, rule.errors * error))
    title, last = f"Held-out success fell from {best:.3g} to {now:.3g}", int(held.steps[-1])
    bound = max(rule.falls, rule.errors * error)
    yield Found(HELD, title, step, last, figures, (HELD,), best - now, bound, excess, 2.0)


def success_lost(seen: HealthInputs, since: int, rule: config.SuccessFell) -> str:
    """Return how much success has been lost since a step, if that is more than the bounds of `success_fell`; otherwise
    nothing. Held-out success is compared if there are evaluations on both sides of the step, otherwise that in training.
    """
    held, train = seen.one(HELD), seen.one(TRAIN)
    before, after = held.values[held.steps < since], held.values[held.steps >= since][-2:]
    if len(before) and len(after):
        best, count, later = float(before.max()), seen.evaluated, seen.evaluated * len(after)
    else:
        before = train.values[train.steps <= since][-RECENT:]  # an iteration plays before its update
        after = train.values[train.steps > since][-RECENT:]
        if not len(before) or len(after) < RECENT:
            return ""
        size = seen.played
        best, count, later = float(before.mean()), size * len(before), size * len(after)
    now = float(after.mean())
    bound = max(rule.falls, rule.errors * standard_error(best, count, now, later))
    if best - now <= bound:
        return ""
    return f"success has not recovered: {best:.3g} before, {now:.3g} now"


def standard_error(one: float, count: int, other: float, others: int) -> float:
    """Return the standard error of the difference of two shares of `count` and `others` episodes, if both are equal."""
    pooled = (one * count + other * others) / (count + others)
    return sqrt(max(pooled * (1 - pooled), 0.0) * (1 / count + 1 / others))


def return_rises_success_falls(seen: HealthInputs, rule: config.ReturnWithoutSuccess) -> Iterator[Found]:
    """Compares the latest iterations with those of the highest mean success."""
    success, returns = seen.one(TRAIN), seen.one("train/return")
    steps, ours, theirs = np.intersect1d(success.steps, returns.steps, return_indices=True)
    means = rolling(SeriesTail(steps, success.values[ours]), rule.window)
    if len(means) <= rule.window:
        return
    index = int(np.argmax(means.values[: -rule.window]))
    fall = float(means.values[index] - means.values[-1])
    earned = returns.values[theirs]
    then, now = earned[index : index + rule.window], float(earned[-rule.window :].mean())
    excess = min(fall / rule.falls, ratio(now - float(then.mean()), rule.rises * float(then.std())))
    figures: Figures = {
        "success at its best": float(means.values[index]),
        "success now": float(means.values[-1]),
        "return then": float(then.mean()),
        "return now": now,
    }
    title = f"The return rose from {then.mean():.3g} to {now:.3g} while success fell by {fall:.3g}"
    series, last = ("train/return", TRAIN), int(steps[-1])
    yield Found(
        "train/return", title, int(steps[index]), last, figures, series, fall, rule.falls, excess, 1.0
    )


def length_hacking(seen: HealthInputs, rule: config.LengthHacking) -> Iterator[Found]:
    """Compares tokens per episode at both ends of the observed steps with the gain in success."""
    spent, success = _tokens_per_episode(seen), seen.one(TRAIN)
    if len(spent) < 2 * rule.window or len(success) < 2 * rule.window:
        return
    count = rule.window
    before, now = float(np.mean(spent.values[:count])), float(np.mean(spent.values[-count:]))
    gain = float(np.mean(success.values[-count:]) - np.mean(success.values[:count]))
    figures: Figures = {"tokens per episode": now, "at first": before, "gain in success": gain}
    title = f"Episodes grew from {before:.3g} to {now:.3g} tokens without a higher success"
    first, last = int(spent.steps[0]), int(spent.steps[-1])
    note = "success rises" if gain >= rule.gain else ""
    grown = ratio(now, before)
    excess = 0.0 if note else grown / rule.times
    series = ("progress/tokens", TRAIN)
    yield Found("progress/tokens", title, first, last, figures, series, grown, rule.times, excess, note=note)


def _tokens_per_episode(seen: HealthInputs) -> SeriesTail:
    """Return differences of the two counters, at the steps that have both."""
    tokens, episodes = seen.one("progress/tokens"), seen.one("progress/episodes")
    steps, ours, theirs = np.intersect1d(tokens.steps, episodes.steps, return_indices=True)
    spent, played = np.diff(tokens.values[ours]), np.diff(episodes.values[theirs])
    valid = played > 0
    return SeriesTail(steps[1:][valid], spent[valid] / played[valid])
