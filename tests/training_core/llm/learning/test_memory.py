"""Memory by arithmetic against numbers by hand, and against what torch really keeps."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from training_core.errors import ModelError
from training_core.llm.base_models.tiny import TinyRecipe, tiny_shape
from training_core.llm.base_models.warm_start import new_model, word_tokenizer
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.llm.environments.registry import warm_start_of
from training_core.llm.generation import prefix_tree, requests
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.prefix_tree import PrefixTreeStore
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning import memory
from training_core.llm.learning.learner_config import Deepspeed, Learner
from training_core.llm.learning.optimiser import Optimiser
from training_core.llm.learning.packing import LONGEST_ROW
from training_core.llm.models.adapter_config import Lora, WholeModel
from training_core.llm.models.lora import add_adapter
from training_core.llm.models.packed_attention import tree_mask
from training_core.llm.models.shape import ModelShape, read_shape, shape_from
from training_core.types import NoiseKey, Prompt

QWEN_05B = {
    "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2,
    "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 32768, "tie_word_embeddings": True,
}  # fmt: skip
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def llama(heads: int = 4, shared: int = 4, inner: int = 160) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=50, hidden_size=64, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=shared, max_position_embeddings=512,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def count(model: PreTrainedModel) -> int:
    return sum(weight.numel() for weight in model.parameters())


def test_parameters_of_a_known_model() -> None:
    """Qwen2.5-0.5B has 494,032,768; without the biases of queries, keys and values, which Llama has not."""
    biases = 24 * (896 + 2 * 128)
    assert shape_from(QWEN_05B).parameters + biases == 494_032_768


@pytest.mark.parametrize("shared", [4, 2])
def test_a_folder_is_counted_from_its_headers(tmp_path: Path, shared: int) -> None:
    model = llama(shared=shared)
    model.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape == ModelShape(count(model), 2, 64, 4, shared, 16, 160, 50, 512)
    config = json.loads((tmp_path / "config.json").read_text())
    assert shape_from(config).parameters == count(model)


def test_shards_are_added_up(tmp_path: Path) -> None:
    model = llama()
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert read_shape(tmp_path).parameters == count(model)
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(ModelError, match="safetensors"):
        read_shape(tmp_path)


@pytest.mark.parametrize(
    ("config", "weights", "said"),
    [
        (None, None, "config.json cannot be read"),
        ("[]", None, "does not contain a JSON object"),
        ('{"hidden_size": 8}', None, "num_hidden_layers"),
        (json.dumps(QWEN_05B), b"torn", "cannot be read as safetensors"),
        (json.dumps(QWEN_05B), struct.pack("<Q", 2**60), "is not a safetensors file"),
        (json.dumps(QWEN_05B | {"num_experts": 8}), None, "mixture of experts"),
    ],
)
def test_what_cannot_be_sized_says_why(
    tmp_path: Path, config: str | None, weights: bytes | None, said: str
) -> None:
    if config:
        (tmp_path / "config.json").write_text(config)
    if weights:
        (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(ModelError, match=said):
        read_shape(tmp_path)


def test_sizes_inside_a_text_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 1, "text_config": QWEN_05B}))
    save_file({"a": torch.zeros(3, 4), "b": torch.zeros(())}, tmp_path / "model.safetensors")
    shape = read_shape(tmp_path)
    assert (shape.parameters, shape.vocabulary, shape.head_size) == (13, 151936, 64)


def test_the_tiny_model_is_sized_before_it_is_made() -> None:
    environment = PlanPath(size=4)
    model = new_model(TinyRecipe(), word_tokenizer(warm_start_of("plan_path").vocabulary(environment)))
    shape, config = tiny_shape(environment), model.config
    assert shape.parameters == count(model)
    assert (shape.layers, shape.hidden, shape.heads) == (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
    )
    assert (shape.intermediate, shape.vocabulary, shape.context) == (
        config.intermediate_size,
        config.vocab_size,
        config.max_position_embeddings,
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_weights_gradients_and_optimiser_are_what_torch_holds(precision: str) -> None:
    model = llama().to(DTYPES[precision])
    shape = shape_from(model.config.to_dict(), count(model))
    optimiser = Optimiser(model, Learner(precision=precision))  # type: ignore[arg-type]
    model(input_ids=torch.zeros(1, 4, dtype=torch.long)).logits.sum().backward()
    weights, grads = sum(map(nbytes, model.parameters())), sum(nbytes(w.grad) for w in model.parameters())
    assert memory.weights(shape, precision) == weights
    copies = 0 if precision == "fp32" else 4 * shape.parameters  # of the gradients in fp32, during the step
    assert (memory.gradients(shape, precision), memory.gradient_copies(shape, precision)) == (grads, copies)
    optimiser.prepare(1e-3)
    optimiser.step()
    held = [tensor for key, tensor in optimiser.state_dict().items() if not key.endswith("/step")]
    assert memory.optimizer(shape, precision) == sum(map(nbytes, held))


def nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("shared", "inner", "rows", "length"), [(4, 160, 1, 256), (2, 256, 2, 64), (4, 32, 1, 100)]
)
def test_activations_are_what_autograd_keeps(
    precision: str, shared: int, inner: int, rows: int, length: int
) -> None:
    """Every storage that the body saves for its backward pass, weights left out, within one in a hundred."""
    model = llama(shared=shared, inner=inner).to(DTYPES[precision])
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    mask = tree_mask(torch.full((rows, length), length), DTYPES[precision])
    ids = torch.zeros(rows, length, dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    shape = shape_from(model.config.to_dict(), count(model))
    saved = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) + nbytes(out)
    assert memory.activations(shape, precision, rows * length, length) == pytest.approx(saved, rel=0.01)


@pytest.mark.parametrize("targets", [(), ("q_proj", "down_proj")])
def test_what_an_adapter_trains_is_counted(targets: tuple[str, ...]) -> None:
    model, adapter = llama(), Lora(rank=4, target_modules=targets)
    shape = shape_from(model.config.to_dict(), count(model))
    add_adapter(model, adapter, 0)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert memory.adapted(shape, adapter).parameters == trained
    assert memory.adapted(shape, WholeModel()) is shape


def test_what_zero_spreads() -> None:
    assert [memory.spread(101, Deepspeed(zero_stage=2), stage, 4) for stage in (1, 2, 3)] == [26, 26, 101]
    assert memory.spread(101, Learner(), 1, 4) == 101


def test_recomputed_activations_by_hand() -> None:
    """Of all layers their inputs (24 x 896 numbers of 2 bytes a token), and of one everything."""
    shape = shape_from(QWEN_05B)
    one = memory.activations(replace(shape, layers=1), "bf16", 1, 100)
    assert memory.activations(shape, "bf16", 1, 100, recomputed=True) == one + 24 * 896 * 2


def test_cache_and_logits_by_hand() -> None:
    shape = shape_from(QWEN_05B)
    assert memory.kv_cache(shape, "bf16", 1) == 2 * 24 * 2 * 64 * 2 == 12_288  # bytes a token
    assert memory.kv_cache(shape, "fp32", 1000) == 1000 * 24_576
    assert memory.output_layer(shape, "bf16", 10) == 10 * 151936 * (2 + 16)
    assert memory.output_layer(shape, "fp32", 10) == 10 * 151936 * (4 + 12)


def test_the_largest_forward_pass_by_hand() -> None:
    text = memory.Text(prompt=100, response=50, group=8, rows=1000)
    packed, single = Learner(micro_batch_tokens=4096), Learner(micro_batch_tokens=4096, packing=False)
    assert memory.micro_batch(packed, text) == (8 * 500, 500, 8 * 8 * 50)  # 8 rows of 100 + 8 x 50
    assert memory.micro_batch(single, text) == (27 * 150, 150, 27 * 50)
    few = memory.Text(prompt=100, response=50, group=8, rows=8)
    assert memory.micro_batch(packed, few) == (500, 500, 400)
    assert memory.micro_batch(Learner(micro_batch_tokens=10), text) == (
        150,
        150,
        50,
    )  # one alone, too long or not
    long = memory.Text(prompt=3000, response=1000, group=8, rows=64)
    assert memory.micro_batch(Learner(micro_batch_tokens=32768), long) == (8 * 4000, 4000, 8 * 1000)
    assert memory.PACKED_ROW == LONGEST_ROW


def test_the_cache_is_what_the_model_makes() -> None:
    model = llama(shared=2)
    made = model(input_ids=torch.zeros(3, 7, dtype=torch.long), use_cache=True).past_key_values
    held = sum(nbytes(layer.keys) + nbytes(layer.values) for layer in made.layers)
    assert memory.kv_cache(shape_from(model.config.to_dict(), 1), "fp32", 3 * 7) == held


def test_a_size_that_is_no_number_is_missing() -> None:
    with pytest.raises(ModelError, match="vocab_size"):
        shape_from({**QWEN_05B, "vocab_size": True})
    assert shape_from({**QWEN_05B, "head_dim": None}).head_size == 64


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(
    ("prompts", "answers", "sequences", "response"),
    [(3, 4, 512, 40), (9, 2, 4, 16), (5, 1, 64, 64), (2, 20, 8, 30)],
)
def test_the_store_is_no_larger_than_estimated(
    prompts: int, answers: int, sequences: int, response: int, fixed: bool
) -> None:
    """The tensors of the torch engine after a call in which answers differ and seldom end early."""
    torch.manual_seed(0)
    model = llama(shared=2)
    engine = TorchEngine(
        model,
        word_tokenizer(warm_start_of("plan_path").vocabulary(PlanPath(size=4))),
        max_batch=sequences,
        static=fixed,
    )
    engine.stops = engine.stops[:0]
    made: list[PrefixTreeStore] = []
    make = engine._make_store

    def make_store(*call: Any) -> Any:
        made.append(make(*call))  # type: ignore[arg-type]
        return made[-1]

    engine._make_store = make_store  # type: ignore[method-assign]
    texts = [[number + 3, *range(4, 23)] for number in range(prompts)]
    engine.generate(
        [Prompt(text, answers, NoiseKey(0, 0, 0, number, 0, 0)) for number, text in enumerate(texts)],
        SamplingSettings(temperature=3.0, max_tokens=response),
    )
    held = sum(nbytes(part) for layer in made[-1]._layers for part in layer)
    tokens = memory.tree_tokens(memory.Call(prompts, answers, 20, response), sequences, fixed=fixed)
    estimated = memory.kv_cache(shape_from(model.config.to_dict(), 1), "fp32", tokens)
    assert held <= estimated <= 2 * held
    assert (memory.TREE_TOKENS, memory.TREE_ANSWERS, memory.MIN_GROWTH) == (
        requests._MIN_TREE_TOKENS,
        requests._MIN_TREE_ANSWERS,
        prefix_tree._MIN_GROWTH,
    )
