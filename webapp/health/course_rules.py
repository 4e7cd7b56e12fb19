"""Rules over the course of the run: several metrics together, and liveness."""

from collections.abc import Iterator

import numpy as np

from training_core.config import health as config
from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail


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


def _tokens_per_episode(seen: HealthInputs) -> SeriesTail:
    """Return differences of the two counters, at the steps that have both."""
    tokens, episodes = seen.one("progress/tokens"), seen.one("progress/episodes")
    steps, ours, theirs = np.intersect1d(tokens.steps, episodes.steps, return_indices=True)
    spent, played = np.diff(tokens.values[ours]), np.diff(episodes.values[theirs])
    valid = played > 0
    return SeriesTail(steps[1:][valid], spent[valid] / played[valid])
