"""Policies: which model, how it generates, how it learns."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, Union

from pydantic import Field

from training_core.config.base import Section, cross_field
from training_core.config.engines import Engine
from training_core.llm.generation.torch.config import Torch
from training_core.llm.learning.deepspeed.config import Deepspeed
from training_core.llm.learning.learner_config import Learner, Optimisation
from training_core.llm.learning.registry import LEARNERS
from training_core.llm.models.adapter_config import Lora, WholeModel

Adapter = Annotated[WholeModel | Lora, Field(discriminator="type")]
"""One class per adapter, selected by `type`."""

ADAPTER_CONFIGS: dict[str, type[Section]] = {"none": WholeModel, "lora": Lora}


LEARNER_CONFIGS: dict[str, type[Optimisation]] = {tag: kind.config for tag, kind in LEARNERS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyLearner = Optimisation
else:
    AnyLearner = Annotated[Union[tuple(LEARNER_CONFIGS.values())], Field(discriminator="type")]  # noqa: UP007
    """One class per learner, selected by `type`."""


class Devices(Section):
    """Devices of one policy's workers. With fractions, workers share a core or a GPU."""

    placement: Literal["colocated", "apart"] = "colocated"
    """colocated: one process generates and updates (no weight copy); apart: separate processes on separate devices."""
    rollout_workers: int = Field(1, ge=1, le=1000)
    """Processes that generate for this policy; colocated allows one."""
    rollout_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per rollout worker (for scheduling; see resources.threads for threads)."""
    rollout_gpus: float = Field(0.0, ge=0.0)
    """GPUs per rollout worker; 0 runs on the CPU."""
    update_workers: int = Field(1, ge=1, le=1000)
    """Processes that update this policy together, each on a share of every minibatch; colocated allows one."""
    update_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per update worker; unused when colocated."""
    update_gpus: float = Field(0.0, ge=0.0)
    """GPUs per update worker; 0 runs on the CPU; unused when colocated."""

    @cross_field
    def _colocated_has_one_worker(self) -> Self:
        if self.placement == "colocated" and self.rollout_workers > 1:
            raise ValueError('several rollout workers need placement = "apart"')
        if self.placement == "colocated" and self.update_workers > 1:
            raise ValueError('several update workers need placement = "apart"')
        return self


class WarmStart(Section):
    """Supervised training on conversations before the first iteration."""

    file_fields: ClassVar[tuple[str, ...]] = ("file",)

    steps: int = Field(0, ge=0)
    """Optimiser steps; 0 disables the warm start."""
    file: str = ""
    """JSON Lines of {"messages": [...]}, below TROUPE_HOME/data or as a path; empty uses the environment's demonstrations."""
    batch: int = Field(16, ge=1)
    """Conversations per step, computed as one batch."""
    learning_rate: float = Field(1e-4, gt=0.0)
    """Peak learning rate of AdamW; it decays to a twentieth by a cosine."""
    loss_mask: Literal["generic", "qwen", "qwen3", "qwen3_5", "distill_qwen"] = "generic"
    """How the assistant's tokens, the only ones trained on, are separated from the rest of a conversation."""


class Policy(Section):
    """The weights behind one or more roles."""

    model_name_fields: ClassVar[tuple[str, ...]] = ("model",)

    model: str = "tiny"
    """Base model: "tiny" (warm-started by Troupe), a name from `troupe model list`, a hub id, a model folder, or a checkpoint's policy."""
    warm_start: WarmStart = WarmStart()
    """Supervised training before the run begins."""
    adapter: Adapter = WholeModel()
    """What is trained: the whole model, or an adapter on it. Several policies can have one adapter each on the same `model`."""
    engine: Engine = Torch()
    """Engine settings of this policy."""
    learner: AnyLearner = Learner()
    """Learner settings of this policy."""
    devices: Devices = Devices()
    """Devices of this policy's workers."""

    @cross_field
    def _who_generates_has_whole_weights(self) -> Self:
        if (
            isinstance(self.learner, Deepspeed)
            and self.learner.zero_stage == 3
            and self.devices.placement == "colocated"
        ):
            raise ValueError(
                'learner.zero_stage: 3 partitions the weights; set devices.placement = "apart", or use 0 to 2'
            )
        return self

    @cross_field
    def _engines_elsewhere_are_sent_weights(self) -> Self:
        if self.engine.weights != "shared" and self.devices.placement == "colocated":
            raise ValueError(
                f'engine.type: {self.engine.type} has its own weights; set devices.placement = "apart", or engine.type = "torch"'
            )
        return self
