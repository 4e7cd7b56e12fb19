"""The deepspeed learner: the same updates, with optimiser states, gradients and weights partitioned over processes
(ZeRO).

Rajbhandari et al., "ZeRO", arXiv 1910.02054: stage 1 partitions optimiser states, 2 also gradients, 3 also weights.
Forward and backward passes are collective from stage 2 on, so processes with fewer micro-batches run idle ones.
Checkpoints are written unpartitioned, in the torch learner's format: each learner can resume the other's. DeepSpeed
is imported when a learner is constructed.
"""

import copy
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import HashStore
from transformers import PreTrainedModel

from training_core.errors import LearnerFailure, import_cause
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Deepspeed, Optimisation
from training_core.llm.learning.optimiser import MASTER, SEPARATOR, OptimiserStep, Processes
from training_core.llm.learning.packing import MicroBatch, make_micro_batches
from training_core.llm.learning.token_logprobs import ResponseForward, TokenScores
from training_core.llm.models.lora import load_trained_weights, trained_weights
from training_core.types import Group

_MOMENTS = ("exp_avg", "exp_avg_sq")
_FLAT = ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat_partition")
"""Names of this process's part of the fp32 weights in stage 3, in stages 1 and 2, and in bf16 with stage 1."""


class _Responses(nn.Module):
    """A model's forward pass over a batch, as a module for DeepSpeed."""

    def __init__(self, model: PreTrainedModel, response_forward: ResponseForward) -> None:
        super().__init__()
        self.model = model
        self._response_forward = response_forward

    def forward(self, piece: MicroBatch, entropy_gradient: bool) -> Tensor:
        """The fields of TokenScores as rows, without entropies if they are empty.

        One tensor: stage 3 counts a hook for each output that a loss uses, processes wait for each other forever if
        their numbers differ, and an idle pass uses fewer outputs.
        """
        scores = self._response_forward.scores(self.model, piece, entropy_gradient=entropy_gradient)
        rows = [scores.logprobs, scores.untruncated, scores.entropies]
        return torch.stack(rows if len(scores.entropies) == len(scores.logprobs) else rows[:2])


class ZeroOptimiser:
    """AdamW in a DeepSpeed engine; the counterpart of the torch learner's `Optimiser`."""

    def __init__(
        self,
        model: PreTrainedModel,
        response_forward: ResponseForward,
        settings: Deepspeed,
        processes: Processes,
    ) -> None:
        self.model, self.settings, self.processes = model, settings, processes
        self.named = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.adamw = torch.optim.AdamW(
            self.named.values(),
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.engine = _engine(_Responses(model, response_forward), self.adamw, settings, processes)

    @property
    def scale(self) -> float:
        """DeepSpeed's loss scale."""
        return float(getattr(self.engine.optimizer, "cur_scale", 1.0))

    def prepare(self, rate: float) -> None:
        """Set the learning rate."""
        for section in self.engine.optimizer.param_groups:
            section["lr"] = rate

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add a micro-batch's gradients. DeepSpeed averages over processes; the learner needs the sum."""
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss * self.processes.size)

    def step(self) -> OptimiserStep:
        """Clip and apply the gradients of all processes. If they are not finite, nothing is applied."""
        if self.settings.zero_stage == 0:
            return self._plain_step()
        before = self.scale
        self.engine.step()
        norm = float(self.engine.get_global_grad_norm())
        if self.engine.was_step_applied() and math.isfinite(norm):
            return OptimiserStep(norm)
        return OptimiserStep(None, overflow=self.settings.precision == "fp16" and before > 1.0)

    def state_dict(self) -> dict[str, Tensor]:
        """As `Optimiser.state_dict`; every process must call it."""
        return {
            f"{name}{SEPARATOR}{key}": tensor.detach().cpu().clone()
            for name, weight in self.named.items()
            for key, tensor in self._state_of(weight).items()
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the tensors of either learner's state. Raises KeyError or ValueError if they do not belong to these weights."""
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        if self.settings.zero_stage > 0:
            self._begin_moments()
        for key, tensor in tensors.items():
            name, what = key.rsplit(SEPARATOR, 1)
            weight = self.named[name]
            if self.settings.zero_stage == 0:
                self.adamw.state[weight][what] = tensor.clone()
            elif what == MASTER:
                safe_set_full_fp32_param(weight, tensor)
            elif what in _MOMENTS:
                safe_set_full_optimizer_state(weight, tensor, what)
            else:
                for state in self.adamw.state.values():
                    state[what] = tensor.clone()

    def counters(self) -> dict[str, int]:
        """The state that a checkpoint stores in addition to the tensors."""
        return {"loss_scale": int(self.scale)} if self.settings.precision == "fp16" else {}

    def load_counters(self, counters: Mapping[str, int]) -> None:
        """Restore `counters`, if there are any."""
        scaler = getattr(self.engine.optimizer, "loss_scaler", None)
        if "loss_scale" in counters and scaler is not None:
            scaler.cur_scale = float(counters["loss_scale"])

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights, also into the partitioned copies."""
        with self.gathered():
            load_trained_weights(self.model, weights)
        if self.settings.zero_stage > 0:
            self.engine.optimizer.refresh_fp32_params()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Context in which every process has the model's complete weights."""
        if self.settings.zero_stage < 3:
            yield
            return
        from deepspeed.runtime.zero import GatheredParameters

        with GatheredParameters(list(self.model.parameters()), modifier_rank=0):
            yield

    def _plain_step(self) -> OptimiserStep:
        """Stage 0: gradients are at the weights, equal in all processes; DeepSpeed does not check their norm."""
        norm = float(
            nn.utils.clip_grad_norm_(list(self.named.values()), self.settings.max_grad_norm or math.inf)
        )
        if not math.isfinite(norm):
            self.engine.optimizer.zero_grad()
            return OptimiserStep(None)
        self.engine.step()
        return OptimiserStep(norm)

    def _begin_moments(self) -> None:
        """Create the optimiser's moments, which it would create in its first step, so that they can be set before it."""
        wrapper = self.engine.optimizer
        for flat in next(getattr(wrapper, name) for name in _FLAT if hasattr(wrapper, name)):
            state = self.adamw.state[flat]
            for key in _MOMENTS:
                state.setdefault(key, torch.zeros_like(flat.detach()))
            state.setdefault("step", torch.zeros(()))
        if hasattr(wrapper, "_lazy_init_hp_params_optimizer_state"):
            wrapper._lazy_init_hp_params_optimizer_state()

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        if self.settings.zero_stage == 0:
            return dict(self.adamw.state.get(weight, {}))
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        step = next((state["step"] for state in self.adamw.state.values() if "step" in state), None)
        if step is None:
            return {}
        state = {key: safe_get_full_optimizer_state(weight, key) for key in _MOMENTS}
        if self.settings.precision != "fp32":
            state[MASTER] = safe_get_full_fp32_param(weight)
        return state | {"step": step}


class DeepspeedLearner(Learner):
    """A learner whose optimiser state, and optionally weights, are sharded over processes by DeepSpeed's ZeRO."""

    compiles = False  # hooks of its modules gather partitioned weights
    optimiser: ZeroOptimiser  # type: ignore[assignment]  # all that Learner asks of one

    def weights(self) -> dict[str, Tensor]:
        """The full weights by name; every process must call it."""
        with self.gathered():
            copies = {id(tensor): tensor.detach().clone() for tensor in self.model.parameters()}
            named = dict(self.model.named_parameters(remove_duplicate=False))
            return {
                name: copies[id(named[name])] if name in named else tensor.clone()
                for name, tensor in trained_weights(self.model).items()
            }

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load full weights; each process keeps its shard."""
        self.optimiser.load_weights(weights)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Make full parameters available within the context."""
        with self.optimiser.gathered():
            yield

    def _make_optimiser(self, settings: Optimisation) -> Any:
        assert isinstance(settings, Deepspeed)
        if settings.zero_stage == 3 and self.reference is not None:
            self.reference = copy.deepcopy(
                self.reference
            )  # with an adapter it shares weights that are now partitioned
        return ZeroOptimiser(self.model, self.forward, settings, self.processes)

    def _scores(self, piece: MicroBatch) -> TokenScores:
        logprobs, untruncated, *rest = self.optimiser.engine(piece, self._has_entropy_bonus)
        entropies = rest[0] if rest else logprobs.new_empty(0)
        return TokenScores(
            logprobs, untruncated, entropies if self._has_entropy_bonus else entropies.detach()
        )

    def _micro_batches(
        self, groups: Sequence[Group], part: Sequence[int], share: Sequence[int] | None = None
    ) -> list[MicroBatch]:
        """Passes are collective: pad with idle ones to as many as the other processes have."""
        pieces = super()._micro_batches(groups, part, share)
        missing = self.processes.largest(len(pieces), self.model.device) - len(pieces)
        if missing <= 0:
            return pieces
        idle = next(iter(make_micro_batches([0], groups, self._micro_batch_options())))
        return pieces + [replace(idle, idle=True)] * missing


def _engine(module: nn.Module, adamw: torch.optim.AdamW, settings: Deepspeed, processes: Processes) -> Any:
    """DeepSpeed's engine. Raises LearnerFailure if DeepSpeed is not installed."""
    os.environ.update({"RANK": str(processes.rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(processes.size)})
    gpu = torch.cuda.is_available() and next(module.parameters()).is_cuda
    if not gpu:
        os.environ["DS_ACCELERATOR"] = "cpu"
    if not distributed.is_initialized():  # a single process: there are no peers
        store = HashStore()
        distributed.init_process_group("nccl" if gpu else "gloo", store=store, rank=0, world_size=1)
    try:
        import deepspeed
        from deepspeed.ops import __compatible_ops__
    except ImportError as error:
        raise LearnerFailure(
            f'learner.type = "deepspeed" needs DeepSpeed: {import_cause(error)}',
            remedy='pip install "troupe[deepspeed]", or set learner.type = "torch"',
        ) from error
    __compatible_ops__["deepspeed_shm_comm"] = (
        False  # otherwise it compiles for minutes and leaves shared memory allocated
    )
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": settings.max_grad_norm if settings.zero_stage else 0.0,
        "zero_optimization": {"stage": settings.zero_stage},
        "zero_allow_untested_optimizer": True,
    }
    if settings.precision != "fp32":
        config[settings.precision] = {"enabled": True}
    return deepspeed.initialize(model=module, optimizer=adamw, config=config)[0]
