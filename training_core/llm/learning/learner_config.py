"""The config of learners: the fields that all have, and those of each."""

from typing import ClassVar, Literal, Protocol, Self

from pydantic import Field

from training_core.config.base import NumberOrAuto, Section, cross_field
from training_core.config.effects import Effects, Place, at_most, iterations, unless
from training_core.errors import InvalidValue
from training_core.llm.models.adapter_config import Lora, WholeModel

CPU_TOKENS = 4096
"""Tokens of a forward pass on the CPU with micro_batch_tokens = "auto"."""


def _packs_on_a_gpu(at: Place) -> str:
    devices = at.config.policies[at.policy].devices
    on_cores = not (devices.rollout_gpus or devices.update_gpus)
    if on_cores and at.section.packed_attention != "mask":
        return "only on a GPU (devices.rollout_gpus or devices.update_gpus above 0)"
    return unless("packing", False)(at)


def _generates_on_the_same_gpu(at: Place) -> str:
    devices = at.config.policies[at.policy].devices
    if at.section.offload == "on" and not (devices.placement == "colocated" and devices.rollout_gpus):
        return 'only on a GPU (devices.rollout_gpus above 0) with devices.placement = "colocated"'
    return ""


def _shared_in_one_process(at: Place) -> str:
    if sum(role.policy == at.policy for role in at.config.team.roles.values()) < 2:
        return "only for a policy of several roles"
    several = at.config.policies[at.policy].devices.update_gpus > 1
    return "only with one process (devices.update_gpus of at most 1)" if several else ""


class Optimisation(Section):
    """Settings shared by all learners."""

    effects: ClassVar[Effects] = {
        "final_learning_rate": unless("schedule", "constant"),
        "packed_attention": _packs_on_a_gpu,
        "offload": _generates_on_the_same_gpu,
    }
    orders: ClassVar[Effects] = {
        "final_learning_rate": at_most(
            "final_learning_rate",
            lambda at: float(at.section.learning_rate),
            "learning_rate",
            'the learning rate rises over the run; set it lower, or schedule = "constant"',
        ),
        "warmup_iterations": at_most(
            "warmup_iterations",
            iterations,
            "run.iterations",
            "the learning rate never reaches its peak; set it lower",
        ),
    }
    has_critic: ClassVar[bool] = True
    """Whether the learner has the value head of algorithm.type = "ppo"."""
    type: str
    """The backend that updates the weights."""
    learning_rate: float = Field(1e-3, gt=0.0)
    """Peak learning rate of AdamW."""
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    """How the learning rate decays from its peak to `final_learning_rate` over the run's iterations."""
    final_learning_rate: float = Field(1e-4, ge=0.0)
    """Learning rate at the last iteration; unused by the constant schedule."""
    warmup_iterations: int = Field(0, ge=0)
    """Iterations over which the learning rate rises linearly to its peak; 0 disables."""
    betas: tuple[float, float] = (0.9, 0.99)
    """Decay rates of AdamW's first and second moments."""
    weight_decay: float = Field(0.0, ge=0.0)
    """AdamW's decoupled weight decay; 0 disables."""
    max_grad_norm: float = Field(1.0, ge=0.0)
    """Gradients are scaled down to this global L2 norm; 0 disables."""
    epochs: int = Field(1, ge=1)
    """Passes over an iteration's samples."""
    minibatches: int = Field(1, ge=1)
    """Optimiser steps per pass; groups are never split."""
    micro_batch_tokens: NumberOrAuto = "auto"
    """Maximum tokens in one forward pass, including padding; a step accumulates gradients over passes. auto: 4,096 on the CPU, on a GPU the
    largest power of two from 512 to 16,384 whose estimated memory fits.
    """
    packing: bool = True
    """Pack a group's prompt and all its responses into one row, so that the prompt is computed once."""
    packed_attention: Literal["auto", "flex", "mask"] = "auto"
    """Attention of packed rows: flex: FlexAttention on a GPU; mask: an explicit mask; auto: flex on a GPU, blocks of places on the CPU."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format of weights and activations; fp16 uses dynamic loss scaling. Curves are reproducible from the seed in fp32 only."""
    offload: Literal["auto", "on", "off"] = "auto"
    """Move the optimiser's states to the host's memory between updates, and release the torch engine's key-value store during them;
    auto: on a GPU, if the estimated memory does not suffice otherwise.
    """
    activation_checkpointing: bool = False
    """Recompute activations in the backward pass instead of storing them: a third more computation, far less memory."""

    @property
    def can_offload(self) -> bool:
        """Whether the learner can move its states to the host."""
        return True

    @property
    def pass_tokens(self) -> int:
        """Maximum tokens in one forward pass; for "auto" those of the CPU."""
        return CPU_TOKENS if self.micro_batch_tokens == "auto" else self.micro_batch_tokens


class Learner(Optimisation):
    """Updates by torch."""

    effects: ClassVar[Effects] = {**Optimisation.effects, "role_gradients": _shared_in_one_process}
    type: Literal["torch"] = "torch"
    """AdamW on fp32 weights; several processes sum their gradients."""
    role_gradients: int = Field(0, ge=0)
    """Iterations between measurements of the gradient by role of a shared policy, on the first minibatch (metrics
    `policy/<policy>/<role>/grad_share`); 0 disables. Each role needs one more copy of the gradient in memory.
    """


class Deepspeed(Optimisation):
    """Updates by DeepSpeed: optimiser states, gradients and weights can be partitioned over processes (ZeRO, arXiv 1910.02054)."""

    has_critic: ClassVar[bool] = False
    type: Literal["deepspeed"] = "deepspeed"
    """DeepSpeed; needs the extra `deepspeed`."""
    zero_stage: int = Field(1, ge=0, le=3)
    """What is partitioned over the processes: 0 nothing, 1 optimiser states, 2 also gradients, 3 also weights."""

    @property
    def can_offload(self) -> bool:
        """Whether the learner can move its states to the host."""
        return False

    @cross_field
    def _states_stay_on_the_device(self) -> Self:
        if self.offload == "on":
            raise InvalidValue(
                "offload: states of DeepSpeed stay on the device",
                remedy='set learner.type = "torch", or a higher zero_stage and more devices.update_workers',
            )
        return self

    @cross_field
    def _copies_are_kept_by_zero(self) -> Self:
        if self.zero_stage == 0 and self.precision != "fp32":
            raise InvalidValue(
                "zero_stage: 0 trains only in fp32", remedy=f'use 1 to 3 for precision = "{self.precision}"'
            )
        return self


class TrainedPolicy(Protocol):
    """The sections of a policy's config that a learner reads."""

    @property
    def learner(self) -> Optimisation: ...
    @property
    def adapter(self) -> WholeModel | Lora: ...
