"""Lines about a run's progress, for the terminal and for the run's log."""

from collections.abc import Mapping
from math import isnan
from typing import Any


def iteration_line(number: int, values: Mapping[str, float], shaped: bool = False) -> str:
    """One iteration as a line of text."""
    seconds = values.get("time/iteration", 0.0)
    return f"iteration {number}: {figures_text('train', values, shaped)}, {seconds:.2f} s"


def evaluation_line(number: int, values: Mapping[str, float], shaped: bool = False) -> str:
    """One evaluation as a line of text."""
    prefix = next(iter(values)).partition("/")[0] if values else "eval"
    how = "sampled" if prefix == "eval_sampled" else "greedy"
    return f"evaluation after iteration {number}, {how}: {figures_text(prefix, values, shaped)}"


def figures_text(prefix: str, values: Mapping[str, float], shaped: bool = False) -> str:
    success, gain = values.get(f"{prefix}/success"), values.get(f"{prefix}/return")
    if gain is not None and isnan(gain):
        return "no episode was completed"
    parts = [
        f"success {success:.2f}" if success is not None and not isnan(success) else "",
        f"return{' (shaped)' if shaped else ''} {gain:.3f}" if gain is not None else "",
    ]
    return ", ".join(filter(None, parts)) or "no episode was completed"


def model_line(policy: str, facts: Mapping[str, Any]) -> str:
    """A policy's base model as a line of text."""
    parameters = facts.get("parameters")
    size = f", {parameters:,} parameters" if isinstance(parameters, int) else ""
    return f"policy {policy}: {facts.get('name', 'a model')}{size}"


def checkpoint_line(iteration: int, size: int, *, best: bool) -> str:
    """A written checkpoint as a line of text; size in bytes."""
    return f"checkpoint of iteration {iteration}: {size / 1e6:.1f} MB{', the best so far' if best else ''}"
