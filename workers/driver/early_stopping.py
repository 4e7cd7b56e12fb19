"""Early stopping: a run whose metric no longer improves finishes before its last iteration.

The metric is that of the best checkpoint, `checkpoint.best_of`; `run.early_stopping` is the patience of Prechelt (1998, "Early
stopping - but when?"): how many measurements in a row may fail to exceed the highest value before them. Iterations without a
measurement, because no evaluation is due, do not count. The state is part of every checkpoint, so that a resumed run ends at the
iteration at which it would have ended without the interruption.
"""

from collections.abc import Mapping
from typing import Any

from training_core.config.experiment import ExperimentConfig


class EarlyStopping:
    """Counts measurements without an improvement."""

    def __init__(self, config: ExperimentConfig) -> None:
        self._patience, self._margin = config.run.early_stopping, config.run.min_delta
        self._metric = config.checkpoint.best_of
        self._highest: float | None = None
        self._iteration = 0
        """Iteration of the highest value."""
        self._waited = 0
        """Measurements since then."""

    def record(self, iteration: int, value: float | None) -> str:
        """Add the metric's value at an iteration, None if it was not measured. Returns the reason to finish, or "".

        A value improves if it exceeds the highest one by more than `run.min_delta`.
        """
        if value is None or not self._patience:
            return ""
        if self._highest is None or value > self._highest + self._margin:
            self._highest, self._iteration, self._waited = value, iteration, 0
            return ""
        self._waited += 1
        if self._waited < self._patience:
            return ""
        return (
            f"early stopping: {self._metric} has not risen above {self._highest:.4g} (iteration {self._iteration}) in "
            f"{self._waited} measurements"
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint stores."""
        return {"highest": self._highest, "iteration": self._iteration, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state; one of an earlier version is empty."""
        self._highest = state.get("highest")
        self._iteration, self._waited = state.get("iteration", 0), state.get("waited", 0)
