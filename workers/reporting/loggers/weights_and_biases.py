"""Weights & Biases. Offline unless asked otherwise: the run's folder holds what `wandb sync` sends later."""

import os
from collections.abc import Mapping, Sequence

# Else it tells its makers of errors, offline too. It reads this when it is imported.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
import wandb

from workers.reporting.loggers.base import Opening


class WeightsAndBiases:
    """See Logger. Steps are a metric of their own, `iteration`: W&B's step may not fall, ours may."""

    def __init__(self, opening: Opening) -> None:
        self._run = wandb.init(
            project=opening.project,
            name=opening.name,
            id=opening.run,
            resume="allow",
            dir=str(opening.folder),
            config=dict(opening.config),
            mode="online" if opening.online else "offline",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("*", step_metric="iteration")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"iteration": step, **values})

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        self._run.log({"iteration": step, name: wandb.Histogram(list(numbers))})

    def close(self) -> None:
        self._run.finish()
