"""The config of the deepspeed learner."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.llm.learning.learner_config import Optimisation


class Deepspeed(Optimisation):
    """Updates by DeepSpeed: optimizer states, gradients and weights can be partitioned over processes (ZeRO, arXiv 1910.02054)."""

    has_critic: ClassVar[bool] = False
    type: Literal["deepspeed"] = "deepspeed"
    """DeepSpeed; needs the extra `deepspeed`."""
    zero_stage: int = Field(1, ge=0, le=3)
    """What is partitioned over the processes: 0 nothing, 1 optimizer states, 2 also gradients, 3 also weights."""

    @cross_field
    def _copies_are_kept_by_zero(self) -> Self:
        if self.zero_stage == 0 and self.precision != "fp32":
            raise ValueError(
                f'zero_stage: 0 trains only in fp32; use 1 to 3 for precision = "{self.precision}"'
            )
        return self
