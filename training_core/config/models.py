"""Policies: which model, how it generates (its engine), how it learns (its learner)."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import Section, cross_field, one_of
from training_core.config.effects import Effects, both, needs, samples, trained, unless, used, where
from training_core.errors import InvalidValue
from training_core.llm.generation.engine_config import EngineSection, Torch
from training_core.llm.generation.registry import ENGINES
from training_core.llm.learning.learner_config import Deepspeed, Learner, Optimisation
from training_core.llm.learning.registry import LEARNERS
from training_core.llm.models.adapter_config import Lora, WholeModel

ENGINE_CONFIGS: dict[str, type[EngineSection]] = {tag: kind.config for tag, kind in ENGINES.items()}
"""type -> config class."""

if TYPE_CHECKING:
    Engine = EngineSection
else:
    Engine = one_of(ENGINE_CONFIGS)


Adapter = Annotated[WholeModel | Lora, Field(discriminator="type")]
"""One class per adapter, selected by `type`."""

LEARNER_CONFIGS: dict[str, type[Optimisation]] = {tag: kind.config for tag, kind in LEARNERS.items()}
"""type -> config class."""

if TYPE_CHECKING:
    AnyLearner = Optimisation
else:
    AnyLearner = one_of(LEARNER_CONFIGS)


class Devices(Section):
    """Devices of one policy's workers. With fractions, workers share a core or a GPU."""

    effects: ClassVar[Effects] = needs(
        "update_workers update_cpus update_gpus weight_transfer", both(where("placement", "apart"), trained)
    )
    placement: Literal["colocated", "apart"] = "colocated"
    """colocated: one process generates and updates in turn; apart: separate processes on separate devices."""
    rollout_workers: int = Field(1, ge=1, le=1000)
    """Processes that generate for this policy; colocated allows one."""
    rollout_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per rollout worker (for scheduling; see resources.threads for threads)."""
    rollout_gpus: float = Field(0.0, ge=0.0)
    """GPUs per rollout worker; 0 runs on the CPU. Above 1 only with engine.tensor_parallel of vLLM."""
    update_workers: int = Field(1, ge=1, le=1000)
    """Processes that update this policy together, each on a share of every minibatch; colocated allows one."""
    update_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per update worker; unused when colocated."""
    update_gpus: float = Field(0.0, ge=0.0)
    """GPUs per update worker, at most 1; 0 runs on the CPU; unused when colocated."""
    weight_transfer: Literal["object_store", "collective"] = "object_store"
    """How new weights reach the rollout workers: Ray's object store, or a broadcast from device to device by NCCL (gloo between CPUs)."""

    @cross_field
    def _collective_connects_equal_devices(self) -> Self:
        if self.weight_transfer == "object_store":
            return self
        if self.placement == "colocated":
            raise InvalidValue(
                "weight_transfer: colocated weights are not transferred",
                remedy='set placement = "apart", or use "object_store"',
            )
        if bool(self.rollout_gpus) != bool(self.update_gpus):
            raise InvalidValue(
                'weight_transfer: "collective" connects GPUs or CPUs',
                remedy='set rollout_gpus and update_gpus both above 0 or both to 0, or use "object_store"',
            )
        if self.rollout_gpus and min(self.rollout_gpus, self.update_gpus) < 1:
            raise InvalidValue(
                "weight_transfer: NCCL needs a GPU for each worker",
                remedy='set rollout_gpus and update_gpus to at least 1, or use "object_store"',
            )
        return self

    @cross_field
    def _update_workers_use_all_their_gpus(self) -> Self:
        if self.placement == "apart" and self.update_gpus > 1:
            raise InvalidValue(
                f"update_gpus: an update worker uses one GPU, but {self.update_gpus:g} are requested",
                remedy="set update_gpus = 1, and update_workers to the number of GPUs",
            )
        return self

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
    effects: ClassVar[Effects] = needs("file batch learning_rate loss_mask", unless("steps", 0))

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
    effects: ClassVar[Effects] = {
        "model": used,
        "warm_start": used,
        "adapter": trained,
        "engine": both(used, samples),
        "learner": trained,
        "devices": used,
    }

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
            raise InvalidValue(
                "learner.zero_stage: 3 partitions the weights",
                remedy='set devices.placement = "apart", or use 0 to 2',
            )
        return self

    @cross_field
    def _engines_use_all_their_gpus(self) -> Self:
        wanted, used = self.devices.rollout_gpus, self.engine.gpus
        if max(wanted, used) > 1 and wanted != used:
            remedy = (
                f"set engine.tensor_parallel to that number, or rollout_gpus to {used}"
                if self.engine.type == "vllm"
                else 'set it to 1, or engine.type = "vllm" and engine.tensor_parallel to that number'
            )
            raise InvalidValue(
                f"devices.rollout_gpus: the engine of a rollout worker uses {used} GPU{'s' * (used > 1)}, but {wanted:g} are requested",
                remedy=remedy,
            )
        return self

    @cross_field
    def _servers_read_weights_from_files(self) -> Self:
        if self.engine.weights == "remote" and self.devices.weight_transfer == "collective":
            raise InvalidValue(
                f"devices.weight_transfer: {self.engine.type} reads weights from a folder",
                remedy='use "object_store"',
            )
        return self

    @cross_field
    def _colocated_engines_are_in_the_process(self) -> Self:
        if self.devices.placement == "apart":
            return self
        if self.engine.weights == "remote":
            raise InvalidValue(
                f"engine.type: {self.engine.type} generates outside the policy's process",
                remedy='set devices.placement = "apart", or engine.type = "torch"',
            )
        if self.engine.gpus > 1:
            raise InvalidValue(
                f"engine.tensor_parallel: a colocated policy uses one GPU, but {self.engine.gpus} are requested",
                remedy='set devices.placement = "apart", or tensor_parallel = 1',
            )
        return self
