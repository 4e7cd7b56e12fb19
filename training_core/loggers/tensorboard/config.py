"""The fields of TensorBoard."""

from training_core.config.base import Section


class TensorBoardFields(Section):
    """Fields of `[reporting]` for TensorBoard."""

    tensorboard: bool = False
    """Also write every metric to TensorBoard event files, below tensorboard/ in the run's folder (extra `tensorboard`)."""
