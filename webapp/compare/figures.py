"""Comparison results as shown in tables."""

from typing import Any


def figures_of(comparison: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `runs_compare` with "matrix" (row better than column; None on the diagonal), "single" (all groups
    have one run, so there is no matrix) and "uneven": whether the values are from different steps.
    """
    pairs = {(pair["better"], pair["than"]): pair for pair in comparison["pairs"]}
    groups = comparison["groups"]
    rows = [
        {"group": one, "cells": [_cell(one["group"], other["group"], pairs) for other in groups]}
        for one in groups
    ]
    repeated = any(group["n"] > 1 for group in groups)
    return comparison | {
        "matrix": rows if pairs and repeated else [],
        "single": bool(pairs) and not repeated,
        "uneven": _uneven(comparison),
    }


def _cell(one: str, other: str, pairs: dict[tuple[str, str], Any]) -> dict[str, Any] | None:
    if pair := pairs.get((one, other)):
        return {"probability": pair["probability"], "interval": pair["interval"]}
    if pair := pairs.get((other, one)):
        bounds = pair["interval"]
        turned = [1 - bounds[1], 1 - bounds[0]] if bounds else None
        return {"probability": 1 - pair["probability"], "interval": turned}
    return None


def _uneven(comparison: dict[str, Any]) -> bool:
    steps = {step for group in comparison["groups"] for step in (group["first_step"], group["last_step"])}
    return len(steps) > 1
