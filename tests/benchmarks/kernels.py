"""Kernels of a decoding step and of an update, counted by operations on the CPU: `python -m tests.benchmarks.kernels`.

Every operation that computes or copies numbers is a kernel on a GPU; views and allocations are none. A layer's number is
the difference of models with three and with two layers. With liger-kernel, and TRITON_INTERPRET=1 for Triton's interpreter,
also the numbers with fused kernels: each of their launches counts as one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from tests.gpu.learners import make_learner
from tests.gpu.tasks import make_groups, make_prompts, random_answers
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.generation import prefix_tree
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models import fused_kernels

VOCABULARY = 96
NO_KERNELS = ("empty", "new_empty", "empty_like", "empty_strided", "_unsafe_view", "_reshape_alias", "detach")


class Kernels(TorchDispatchMode):
    """Counts operations that would be kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        views = [part.alias_info is not None and not part.alias_info.is_write for part in schema.returns]
        name = schema.name.partition("::")[2]
        self.count += not (views and all(views)) and name not in NO_KERNELS
        return func(*args, **(kwargs or {}))


def make_model(layers: int, *, fused: bool) -> PreTrainedModel:
    """A small model in the shape of Qwen3."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=layers, head_dim=16,
        num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    model: PreTrainedModel = Qwen3ForCausalLM(config).eval()
    if fused:
        assert fused_kernels.fuse(model), "liger-kernel's results differ"
        family: Any = sys.modules[type(model).__module__]
        family.apply_rotary_pos_emb = family.apply_rotary_pos_emb.fused  # on the CPU, too
    return model


@contextmanager
def counted_launches(mode: Kernels) -> Iterator[None]:
    """Context in which a kernel of Triton's interpreter counts as one, whatever the interpreter does."""
    if find_spec("triton") is None:
        yield
        return
    from triton.runtime.interpreter import GridExecutor

    launch = GridExecutor.__call__

    def count(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = mode.count
        result = launch(self, *args, **kwargs)
        mode.count = before + 1
        return result

    GridExecutor.__call__ = count
    try:
        yield
    finally:
        GridExecutor.__call__ = launch


def decoding(model: PreTrainedModel) -> dict[str, int]:
    """Kernels of a model's decoding step (forward pass), and of drawing tokens."""
    prefix_tree._SMALL_KEYS = prefix_tree._FEW_QUERIES = 0  # attention by one kernel, as on a GPU
    engine = TorchEngine(
        model, word_tokenizer(tuple(map(str, range(VOCABULARY - 6)))), static=True, cache_bytes=0
    )
    engine.tree_support = True
    counts: dict[str, list[int]] = {"decode": [], "_sample": []}

    def counting(owner: Any, name: str) -> None:
        usual = getattr(owner, name)

        def count(*args: Any) -> Any:
            with Kernels() as mode, counted_launches(mode):
                result = usual(*args)
            counts[name].append(mode.count)
            return result

        setattr(owner, name, count)

    store = engine._make_store

    def make_store(*args: Any) -> Any:
        made = store(*args)
        counting(made, "decode")
        return made

    engine._make_store = make_store  # type: ignore[method-assign]
    counting(engine, "_sample")
    engine.generate(make_prompts(4, 4, 12, VOCABULARY), SamplingSettings(max_tokens=16))
    return {name: sorted(numbers)[len(numbers) // 2] for name, numbers in counts.items()}


def updating(model: PreTrainedModel) -> dict[str, int]:
    """Kernels of the passes of an update with one micro-batch, without the optimiser."""
    learner = make_learner(model, packed_attention="mask")
    prompts = make_prompts(2, 4, 12, VOCABULARY)
    groups = make_groups(prompts, random_answers(prompts, 6, VOCABULARY))
    learner._step = lambda sums: None  # type: ignore[method-assign]
    mode = Kernels()
    loss = learner._loss

    def count(*args: Any, **kwargs: Any) -> Any:
        with mode, counted_launches(mode):
            result = loss(*args, **kwargs)
        return result

    def backward(value: Any, *, last: bool) -> None:
        with mode, counted_launches(mode):
            value.backward()

    learner._loss = count  # type: ignore[method-assign]
    learner.optimiser.backward = backward  # type: ignore[method-assign]
    learner.update(groups, 1, 0, set())
    return {"micro-batch": mode.count}


def main() -> None:
    """Print the kernels of a layer and of the rest."""
    for fused in (False, True) if find_spec("liger_kernel") and find_spec("triton") else (False,):
        two, three = (
            {**decoding(model), **updating(model)} for model in (make_model(n, fused=fused) for n in (2, 3))
        )
        print("fused kernels" if fused else "transformers' modules")
        for name, number in two.items():
            layer = three[name] - number
            print(f"  {name:<12} {layer:>4} of a layer, {number - 2 * layer:>4} of the rest")


if __name__ == "__main__":
    main()
