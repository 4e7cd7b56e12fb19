"""Figures of an episode by role and by turn, stored in its row so that queries need not read its body.

`roles` = {role: {"turns", "tokens", "truncated", "advantage"}}. Tokens count all candidates; truncated: whether an executed answer was
cut at its token limit; advantage: the mean over the role's executed answers, missing until an update reports it.
`groups` = [{"role", "reward", "tokens", "truncated", "advantage", "candidates", "mean", "variance"}] of the first MOST_TURNS turns.
reward, tokens, truncated and advantage are those of the executed answer; mean and variance (unbiased) are of all candidates' rewards.
Missing values are left out. Numbers that are not finite are left out, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isclose, isfinite
from statistics import fmean, variance
from typing import Any

MOST_TURNS = 2000

Roles = dict[str, dict[str, Any]]
Groups = list[dict[str, Any]]


def facts_of(turns: Iterable[Mapping[str, Any]]) -> tuple[Roles, Groups]:
    """Return (roles, groups) of the turns of a body. Advantages in the body itself, as a custom trainer reports them, count."""
    roles: Roles = {}
    groups: Groups = []
    advantages: list[tuple[str, float]] = []
    for turn in turns:
        group = _group(turn)
        groups.append(group)
        role = roles.setdefault(turn["role"], {"turns": 0, "tokens": 0, "truncated": False})
        role["turns"] += 1
        role["tokens"] += sum(len(candidate["token_ids"]) for candidate in turn["candidates"])
        role["truncated"] |= group.get("truncated", False)
        if "advantage" in group:
            advantages.append((turn["role"], group["advantage"]))
    _means_set(roles, advantages)
    return roles, groups[:MOST_TURNS]


def advantages_add(roles: Roles, groups: Groups, turns: Iterable[Mapping[str, Any]]) -> None:
    """Add the executed answers' advantages of an annotation's turns. `executed` of a group is its index among the candidates."""
    for turn in turns:
        index = turn["turn"]
        executed = groups[index].get("executed") if 0 <= index < len(groups) else None
        if executed is None or executed >= len(turn["advantages"]):
            continue
        if (advantage := _finite(turn["advantages"][executed])) is not None:
            groups[index]["advantage"] = advantage
    _means_set(roles, [(group["role"], group["advantage"]) for group in groups if "advantage" in group])


def _means_set(roles: Roles, advantages: Sequence[tuple[str, float]]) -> None:
    for name, role in roles.items():
        if values := [value for owner, value in advantages if owner == name]:
            role["advantage"] = fmean(values)


def _group(turn: Mapping[str, Any]) -> dict[str, Any]:
    candidates = turn["candidates"]
    group = {"role": turn["role"], "candidates": len(candidates)}
    rewards = [_finite(candidate["reward"]) for candidate in candidates]
    known = [reward for reward in rewards if reward is not None]
    scored = sum(candidate["reward"] is not None for candidate in candidates)
    if known and len(known) == scored:
        group["mean"] = fmean(known)
        if len(known) > 1:
            equal = isclose(min(known), max(known), rel_tol=1e-9)
            group["variance"] = 0.0 if equal else variance(known)
    executed = turn["executed"]
    if not 0 <= executed < len(candidates):
        return group
    answer = candidates[executed]
    figures = {"reward": rewards[executed], "advantage": _finite(answer.get("advantage"))}
    return group | {
        "executed": executed,
        "tokens": len(answer["token_ids"]),
        "truncated": answer["stop_reason"] == "length",
        **{name: value for name, value in figures.items() if value is not None},
    }


def _finite(value: float | str | None) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and isfinite(number) else None
