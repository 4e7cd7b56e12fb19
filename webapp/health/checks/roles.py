"""Checks of what the messages of a role are worth (evaluation.worth)."""

from collections.abc import Iterator

from training_core.config import health as config
from webapp.health.checks.common import found, mean, ratio, solved
from webapp.health.inputs import Figures, Found, HealthInputs

KINDS = ("eval", "eval_sampled")


def idle_role(seen: HealthInputs, rule: config.IdleRole) -> Iterator[Found]:
    """Measures the influence of a role's messages, while the tasks are not solved."""
    note = solved(seen, rule.unless_success)
    for kind in KINDS:
        for key, role, curve in seen.each(kind, "influence"):
            if len(curve) < rule.window:
                continue
            now = mean(curve, rule.window)
            figures: Figures = {"influence": now, "evaluations": rule.window, "threshold": rule.below}
            title = f"It makes no difference what {role} says: influence {now:.3g}"
            excess = 0.0 if note else ratio(rule.below, now)
            yield found(
                key, title, curve, rule.window, figures, now, rule.below, excess=excess, note=note, below=True
            )


def harmful_role(seen: HealthInputs, rule: config.HarmfulRole) -> Iterator[Found]:
    """Measures how far the worth of a role's most likely answers is below 0, beyond the interval of its mean."""
    for key, role, curve in seen.each("eval", "worth"):
        widths = seen.one(f"eval/{role}/worth_half_width")
        if min(len(curve), len(widths)) < rule.window:
            continue
        worth, half_width = mean(curve, rule.window), mean(widths, rule.window) / rule.window**0.5
        below = max(0.0, -worth - half_width)
        figures: Figures = {"worth": worth, "half width": half_width, "threshold": rule.above}
        title = f"The answers of {role} are worse than its alternatives: worth {worth:.3g} ± {half_width:.2g}"
        yield found(key, title, curve, rule.window, figures, below, rule.above)
