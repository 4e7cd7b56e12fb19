"""Early stopping: a run whose metric no longer improves finishes before its last iteration.

The metric is that of the best checkpoint, `checkpoint.best_of`; `run.early_stopping` is the patience of Prechelt (1998, "Early
stopping - but when?"): how many measurements in a row may fail to exceed the highest value before them. Iterations without a
measurement, because no evaluation is due, do not count. The state is part of every checkpoint, so that a resumed run ends at the
iteration at which it would have ended without the interruption.
"""

import logging
from collections.abc import Mapping
from typing import Any

from training_core.config.experiment import ExperimentConfig

log = logging.getLogger(__name__)


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
        self._first_end = self._patience * max(config.evaluation.every, 1)
        """Iteration by which a metric of evaluations has been measured as often as the patience."""

    def record(self, iteration: int, value: float | None) -> str:
        """Add the metric's value at an iteration, None if it was not measured. Returns the reason to finish, or "".

        A value improves if it exceeds the highest one by more than `run.min_delta`.
        """
        if not self._patience:
            return ""
        if value is None:
            self._warn_if_unmeasured(iteration)
            return ""
        if self._highest is None or value > self._highest + self._margin:
            self._highest, self._iteration, self._waited = value, iteration, 0
            return ""
        self._waited += 1
        if self._waited < self._patience:
            return ""
        return (
            f"early stopping: {self._metric} has not improved on {self._highest:.4g} (iteration {self._iteration}) in "
            f"{self._waited} measurements"
        )

    def _warn_if_unmeasured(self, iteration: int) -> None:
        if self._highest is None and iteration == self._first_end:
            log.warning(
                "run.early_stopping has no effect: the run has not measured %s; set checkpoint.best_of to one of its metrics",
                self._metric,
            )

    def state(self) -> dict[str, Any]:
        """What a checkpoint stores."""
        return {"highest": self._highest, "iteration": self._iteration, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state; one of an earlier version is empty."""
        self._highest = state.get("highest")
        self._iteration, self._waited = state.get("iteration", 0), state.get("waited", 0)
