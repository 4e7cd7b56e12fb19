"""The steps of the program, in the order in which they run."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Bound:
    """A limit that a figure must observe."""

    figure: str
    relation: str
    limit: float
    card_only: bool = False
    """A speed or a size in memory, which is not judged on a CPU."""

    @property
    def text(self) -> str:
        """The bound written out."""
        return f"{self.figure} {self.relation} {self.limit:g}"

    def holds(self, figures: Mapping[str, Any], *, small: bool) -> bool | None:
        """Whether the figures observe it; None if it is not judged. A missing figure fails."""
        if self.card_only and small:
            return None
        value = figures.get(self.figure)
        return isinstance(value, int | float) and RELATIONS[self.relation](value, self.limit)


@dataclass(frozen=True)
class Step:
    """A part of the program, run in a process of its own."""

    run: str
    """"module:function" below tests.gpu.steps: (Setting, **options) -> Figures."""
    about: str
    seconds: int
    """Estimated wall time on one H100."""
    needs: tuple[str, ...] = ()
    """Packages in addition to torch, transformers and pydantic."""
    bounds: tuple[Bound, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


STEPS: dict[str, Step] = {
    "engine": Step(
        "engine:check_engine",
        "Torch engine against the plain model: tokens and logprobs, with and without CUDA graphs",
        60,
        bounds=(
            Bound("greedy_tokens_that_differ", "<=", 0),
            Bound("largest_logprob_error", "<", 1e-3),
            Bound("largest_graph_error", "<", 1e-3),
        ),
    ),
    "packing": Step(
        "packing:check_packing",
        "Packed updates (FlexAttention, explicit mask) against updates of single rows",
        120,
        bounds=(
            Bound("largest_logprob_error", "<", 1e-4),
            Bound("relative_gradient_error", "<", 1e-3),
        ),
    ),
    "generation_0.5b": Step(
        "generation:measure_generation",
        "Generation with 0.5B parameters: tokens per second, share of the memory bandwidth",
        120,
        options={"size": "0.5B"},
    ),
}
