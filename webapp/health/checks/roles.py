"""Checks of roles: rewards that do not reach one, and what its messages are worth (evaluation.worth)."""

from collections.abc import Iterator
from dataclasses import replace

from training_core.config import health as config
from webapp.health.checks.common import found, mean, mean_above, ratio, solved
from webapp.health.inputs import Figures, Found, HealthInputs

KINDS = ("eval", "eval_sampled")
TOO_HARD = mean_above("groups/*/too_hard", "{mean:.0%} of {whose}'s groups are too hard")


def too_hard(seen: HealthInputs, rule: config.GroupShare) -> Iterator[Found]:
    """Measures the share of groups in which no candidate succeeds, except of roles for which `unpaid_role` says why."""
    unpaid = {one.key for one in unpaid_role(seen, rule) if not one.note}
    for one in TOO_HARD(seen, rule):
        yield one.unless("no reward reaches this role, which has its own rule" if one.key in unpaid else "")


def unpaid_role(seen: HealthInputs, rule: config.GroupShare) -> Iterator[Found]:
    """Measures the same of roles whose groups have all had equal rewards, while those of others differ or the team succeeds."""
    level = {role: curve for _, role, curve in seen.each("groups", "zero_variance")}
    recent = {role: curve.tail(rule.window).values for role, curve in level.items()}
    succeeds = bool((seen.one("train/success").tail(rule.window).values > 0).any())
    for one in TOO_HARD(seen, rule):
        role = one.key.removeprefix("groups/").removesuffix("/too_hard")
        paid = succeeds or any((values < 1).any() for other, values in recent.items() if other != role)
        note = "" if paid else "no role earns a reward"
        if role not in level or (level[role].values < 1).any():
            note = "its rewards have differed"
        yield replace(one, title=f"No reward reaches {role}").unless(note)


def idle_role(seen: HealthInputs, rule: config.IdleRole) -> Iterator[Found]:
    """Measures how much a role's messages matter at most, while the tasks are not solved and another role's messages matter."""
    unsolved = solved(seen, rule.unless_success)
    for kind in KINDS:
        curves = [item for item in seen.each(kind, "influence_high") if len(item[2]) >= rule.window]
        highs = {role: mean(curve, rule.window) for _, role, curve in curves}
        alone = "" if max(highs.values(), default=0.0) > rule.below else "no role's messages matter"
        for key, role, curve in curves:
            now, note = highs[role], unsolved or alone
            figures: Figures = {
                "influence, at most": now,
                "evaluations": rule.window,
                "threshold": rule.below,
            }
            title = f"It makes no difference what {role} says: influence at most {now:.3g}"
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
