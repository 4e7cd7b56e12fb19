"""Fused kernels of a model on a GPU: RMSNorm, rotary embeddings and the gated network of a layer as one kernel each.

transformers computes them in thirty kernels of a layer, each of which reads and writes all activations: in an update
of 1.7 billion parameters they take half of the device's time. liger-kernel (Hsu et al. 2024, arXiv 2410.10989; the extra
`gpu`) has one kernel each, with gradients. It replaces the methods of a model's modules. Without it torch.compile does
the same for the layers of a model that is updated. A trial compares logits and gradients with those of the modules before.

The output layer is not among them: liger-kernel's fused cross entropy has neither a temperature nor truncation nor an
entropy, which an update needs (learning/token_logprobs.py computes them in chunks).
"""

import importlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from training_core.llm.models.packed_attention import raise_limits

log = logging.getLogger(__name__)
PACKAGE = "liger_kernel"
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Values of `model_type` with a layer of these parts."""
_LARGE = 300_000_000
"""Parameters from which compiling, which takes tens of seconds, is worth its time."""
_ROTATION = "apply_rotary_pos_emb"
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
"""Tolerance of a trial's logits, relative to the largest of them."""
_OF_GRADIENTS = 3
"""Tolerance of gradients, in tolerances of logits: rounding adds up over twice as many operations."""


def use_fused_kernels(model: PreTrainedModel) -> bool:
    """Use fused kernels in a model on a GPU, if they are installed and a trial gives its results. Returns whether they are used."""
    if model.device.type != "cuda":
        return False
    kind = str(getattr(model.config, "model_type", ""))
    if kind not in FAMILIES:
        log.info("no fused kernels: there are none for models of type %s", kind)
        return False
    return fuse(model)


def compile_for_updates(model: PreTrainedModel) -> bool:
    """Compile the layers of a large model on a GPU that has no fused kernels. Returns whether they are compiled."""
    family = str(getattr(model.config, "model_type", "")) in FAMILIES
    if model.device.type != "cuda" or not family or model.num_parameters() < _LARGE or _is_changed(model):
        return False
    return compile_layers(model)


def fuse(model: PreTrainedModel) -> bool:
    """Replace the parts of a model by liger-kernel's; if the results differ, or a kernel fails, the model is as before."""
    rotation = getattr(_family(model), _ROTATION, None)
    reason = _failure(model, _replace)
    if not reason:
        log.info("norms, rotary embeddings and gated networks use the fused kernels of liger-kernel")
        return True
    if rotation is not None:
        setattr(_family(model), _ROTATION, rotation)
    log.warning("no fused kernels of liger-kernel (install troupe[gpu] on a GPU): %s", reason)
    return False


def compile_layers(model: PreTrainedModel, backend: Any = "inductor") -> bool:
    """Compile a model's layers, all of them at once: a layer's code is compiled for its first size, and again for all others.

    Attention by blocks and that of an engine's store are called from there, as they are. If the results differ, or the
    compiler fails, the model is as before.
    """
    reason = _failure(model, partial(_compile, backend=backend))
    if reason:
        log.warning("layers are not compiled, updates are slower: %s", reason)
    else:
        log.info("each layer is compiled by torch.compile")
    return not reason


def _compile(model: PreTrainedModel, backend: Any) -> None:
    raise_limits()
    compiled: dict[type[nn.Module], Any] = {}
    for part in model.modules():
        if isinstance(part, GradientCheckpointingLayer):
            kind = type(part)
            compiled.setdefault(kind, torch.compile(kind.forward, backend=backend))
            vars(part)["forward"] = MethodType(compiled[kind], part)  # a copy of the model gets its own


def _is_changed(model: PreTrainedModel) -> bool:
    return any("forward" in vars(part) for part in model.modules())


def _failure(model: PreTrainedModel, change: Callable[[PreTrainedModel], None]) -> str:
    """Change a model's modules, and compare its results. Returns why they are as before; empty if the change remains."""
    parts = [vars(part) for part in model.modules()]
    before = [dict(part) for part in parts]
    expected = _results(model)
    reason = ""
    try:
        change(model)
        actual = _results(model)
        bounds = [_TOLERANCE[model.dtype]] + [_OF_GRADIENTS * _TOLERANCE[model.dtype]] * (len(expected) - 1)
        if not all(map(_matches, actual, expected, bounds)):
            reason = "the results differ from the model's"
    except Exception as error:  # an import, and a compiler, raise errors of many kinds
        reason = str(error) or type(error).__name__
    if reason:
        for part, own in zip(parts, before, strict=True):
            part.clear()
            part.update(own)
    return reason


def _replace(model: PreTrainedModel) -> None:
    """Let liger-kernel replace the model's methods. Other models of the family, which may be on a CPU, keep theirs."""
    apply: Any = importlib.import_module(f"{PACKAGE}.transformers")._apply_liger_kernel_to_instance
    family = _family(model)
    usual = getattr(family, _ROTATION)
    with _unchanged(family):
        apply(
            model=model,
            rope=True,
            rms_norm=True,
            swiglu=True,
            cross_entropy=False,
            fused_linear_cross_entropy=False,
        )
        fused = getattr(family, _ROTATION)
    if not hasattr(usual, "fused"):
        setattr(family, _ROTATION, _by_device(fused, usual))


@contextmanager
def _unchanged(module: Any) -> Iterator[None]:
    """Context after which the module has the names that it had before."""
    names = dict(vars(module))
    try:
        yield
    finally:
        vars(module).update(names)


def _by_device(fused: Any, usual: Any) -> Any:
    """The rotation, which is a function of the family's module: fused for a model on a GPU."""

    @wraps(usual)
    def rotate(query: Tensor, *args: Any, **kwargs: Any) -> Any:
        return (fused if query.is_cuda else usual)(query, *args, **kwargs)

    rotate.fused = fused  # type: ignore[attr-defined]
    return rotate


def _family(model: PreTrainedModel) -> Any:
    return sys.modules[type(model).__module__]


def _results(model: PreTrainedModel) -> list[Tensor]:
    """Logits of a short text, and the gradients of its embeddings and of the norms' weights: no others, which are large."""
    body: Any = model.base_model
    embeddings: Any = model.get_input_embeddings()
    table: Tensor = embeddings.weight
    tokens = (7 * torch.arange(12, device=table.device) + 3) % len(table)
    states = table.detach()[tokens].unsqueeze(0).requires_grad_()
    norms = [part.weight for part in body.modules() if _is_norm(part) and part.weight.requires_grad]
    with torch.enable_grad():
        logits: Tensor = model(inputs_embeds=states, use_cache=False).logits
        loss = logits.float().log_softmax(-1)[0, torch.arange(11), tokens[1:]].sum()
        return [logits.detach(), *torch.autograd.grad(loss, [states, *norms])]


def _is_norm(part: nn.Module) -> bool:
    return type(part).__name__.endswith("RMSNorm")


def _matches(actual: Tensor, expected: Tensor, bound: float) -> bool:
    error = float((actual.float() - expected.float()).abs().max())
    return error <= bound * float(expected.float().abs().max())
