"""Weights & Biases. Offline unless configured otherwise: `wandb sync` sends the data of the run folder later."""

import os
from collections.abc import Mapping, Sequence

# Otherwise wandb reports errors to its vendor, even offline. It reads the variable at import.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
import wandb

from training_core.loggers.registry import LoggerSetup


class WeightsAndBiases:
    """Logs metrics to Weights & Biases. Steps are the separate metric `iteration`, because W&B's step may not decrease."""

    def __init__(self, setup: LoggerSetup) -> None:
        self._run = wandb.init(
            project=setup.project,
            name=setup.name,
            id=setup.run,
            resume="allow",
            dir=str(setup.folder),
            config=dict(setup.config),
            mode=setup.fields.get("wandb_mode", "offline"),
            settings=wandb.Settings(silent=True, console="off", reinit="create_new"),
        )
        self._run.define_metric("*", step_metric="iteration")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"iteration": step, **values})

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        self._run.log({"iteration": step, name: wandb.Histogram(list(numbers))})

    def close(self) -> None:
        self._run.finish()
