"""Checks of episodes and of their groups."""

from collections.abc import Iterator

import numpy as np

from training_core.config import health as config
from webapp.health.checks.common import Check, Threshold, found, mean, mean_above, ratio, solved
from webapp.health.inputs import Figures, Found, HealthInputs, SeriesTail


def too_easy(seen: HealthInputs, rule: config.TooEasy) -> Iterator[Found]:
    """Measures the share of groups in which every candidate has the maximum reward, while the tasks are not solved."""
    note = solved(seen, rule.unless_success)
    for one in mean_above("groups/*/too_easy", "{mean:.0%} of {whose}'s groups are too easy")(seen, rule):
        yield one.unless(note)


def no_spread(seen: HealthInputs, rule: config.NoSpread) -> Iterator[Found]:
    """Measures the share of a role's groups with equal rewards, where neither `too_easy` nor `too_hard` says why.

    Once the tasks are solved it counts only if it was so from the first iterations: then nothing was learnt.
    """
    note = solved(seen, rule.unless_success)
    for key, role, curve in seen.each("groups", "zero_variance"):
        if len(curve) < rule.window:
            continue
        now, first = mean(curve, rule.window), float(np.mean(curve.values[: rule.window]))
        easy, hard = (
            mean(seen.one(f"groups/{role}/{name}"), rule.window)
            if len(seen.one(f"groups/{role}/{name}"))
            else 0.0
            for name in ("too_easy", "too_hard")
        )
        figures: Figures = {
            "groups of equal rewards": now,
            "all above 0": easy,
            "none above 0": hard,
            "at first": first,
        }
        why = note if note and first < rule.above else ""
        if not note and max(easy, hard) > rule.one_kind:
            why = f"most are too {'hard' if hard > easy else 'easy'}, which has its own rule"
        title = f"The rewards of {role} hardly differ: {now:.0%} of its groups have equal ones"
        yield found(key, title, curve, rule.window, figures, now, rule.above).unless(why)


def truncation(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
    """Measures the share of truncated responses of each role; that of the team in runs of versions without the metric by role."""
    by_role = any(seen.each("rollout", "truncated"))
    metric = "rollout/*/truncated" if by_role else "rollout/truncated"
    whose = "{whose}'s responses" if by_role else "responses"
    yield from mean_above(metric, f"{{mean:.0%}} of {whose} are truncated", 2.5)(seen, rule)


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
        yield Found(key, title, int(steps[0]), int(steps[-1]), figures, (key,), episodes, 0.0)


def share_of_episodes(metric: str, title: str) -> Check:
    """Return the rule that a share of training episodes, which the metric counts, is above a bound, with their commonest error.

    title: a format of `share`. The metric may exist only in iterations with some.
    """

    def check(seen: HealthInputs, rule: Threshold) -> Iterator[Found]:
        counted, episodes = seen.one(metric), seen.one("progress/episodes")
        if len(episodes) <= rule.window:
            return
        window = episodes.tail(rule.window + 1)
        first, last = int(window.steps[1]), int(window.steps[-1])
        count = float(counted.values[(counted.steps >= first) & (counted.steps <= last)].sum())
        played = float(window.values[-1] - window.values[0])
        share, error = ratio(count, played), seen.errors.get(metric, "")
        figures: Figures = {"episodes": count, "of": played, "threshold": rule.above}
        figures |= {"commonest error": error} if error else {}
        words = title.format(share=share) + (f": {error}" if error else "")
        bounded = SeriesTail(window.steps[1:], window.values[1:])
        yield found(metric, words, bounded, rule.window, figures, share, rule.above, critical_at=5.0)

    return check
