"""The fields of Weights & Biases."""

from typing import Literal

from training_core.config.base import Section


class WandbFields(Section):
    """Fields of `[reporting]` for Weights & Biases."""

    wandb: bool = False
    """Also log every metric to Weights & Biases (extra `wandb`)."""
    wandb_mode: Literal["offline", "online"] = "offline"
    """offline: stored below wandb/ in the run's folder, for `wandb sync`; online: sent immediately, with the machine's W&B login."""
