"""LoRA: what is trained, what is shared, and that a merged model speaks as the adapter does."""

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.training_core.llm.learning.test_learner import groups
from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.errors import CheckpointError, EngineFailure, ModelError
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.policy_checkpoint import load_frozen, load_policy, save_frozen, save_policy
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.loading import load_model, merge_folder
from training_core.llm.models.lora import (
    add_adapter,
    has_adapter,
    merged,
    save_adapter,
    trained_weights,
    with_shared_tensors,
    without_adapter,
)
from training_core.llm.models.shape import read_shape

IDS = torch.tensor([[6, 7, 8, 9, 10, 11]])
ALGORITHM = AtGrpo(kl_coefficient=0.1)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    make_model().save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def lora(**settings: object) -> Lora:
    return Lora(**{"rank": 4, "alpha": 8, **settings})


def learner(base: Path, seed: int = 1, **settings: object) -> Learner:
    adapter = lora(**settings)
    model = load_model(base)
    add_adapter(model, adapter, seed)
    optimisation = LearnerSettings(learning_rate=0.02, schedule="constant", minibatches=2)
    return Learner(Policy(adapter=adapter, learner=optimisation), ALGORITHM, model, 6)


@torch.no_grad()
def logits(model: torch.nn.Module) -> torch.Tensor:
    result: torch.Tensor = model(input_ids=IDS).logits
    return result


def test_a_fresh_adapter_changes_nothing_and_is_all_that_is_trained(base: Path) -> None:
    one = learner(base)
    assert torch.equal(logits(one.model), logits(load_model(base)))
    trained = {name for name, weight in one.model.named_parameters() if weight.requires_grad}
    assert trained == set(one.weights()) and all(".lora_" in name for name in trained)
    linear = 2 * 7
    assert len(trained) == 2 * linear, "A and B for every linear layer but the output layer"


def test_only_the_named_layers_get_one(base: Path) -> None:
    model = load_model(base)
    add_adapter(model, lora(target_modules=("q_proj", "v_proj")), 0)
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in trained_weights(model)} == {
        "q_proj",
        "v_proj",
    }
    with pytest.raises(ModelError, match=r"no layers named nothing.*down_proj, gate_proj"):
        add_adapter(load_model(base), lora(target_modules=("nothing",)), 0)


def test_the_output_is_scaled_by_alpha_over_rank(base: Path) -> None:
    """y = W x + alpha / rank * B A x, by hand on one layer."""
    model = load_model(base)
    add_adapter(model, lora(rank=4, alpha=6), 0)
    layer = model.model.layers[0].self_attn.q_proj
    down, up = layer.lora_A["default"].weight, torch.randn_like(layer.lora_B["default"].weight)
    with torch.no_grad():
        layer.lora_B["default"].weight.copy_(up)
        seen = torch.randn(3, 32)
        expected = seen @ layer.base_layer.weight.T + 1.5 * seen @ down.T @ up.T
        torch.testing.assert_close(layer(seen), expected)


def test_the_scale_follows_from_the_models_size_unless_it_is_given(base: Path, tmp_path: Path) -> None:
    model = load_model(base)
    add_adapter(model, Lora(rank=4), 1)
    save_adapter(tmp_path, model, trained_weights(model), str(base))
    assert json.loads((tmp_path / "adapter_config.json").read_text())["lora_alpha"] == 128
    assert [Lora().alpha_for(hidden) for hidden in (64, 256, 257, 2048)] == [128, 128, 16, 16]
    assert Lora(alpha=8).alpha_for(64) == 8


def test_updates_leave_the_base_weights_as_they_were(base: Path) -> None:
    one = learner(base)
    before = logits(one.model)
    one.update(groups(), 1, 0)
    assert not torch.allclose(logits(one.model), before, atol=1e-3), "it has learnt"
    original = load_model(base).state_dict()
    kept = without_adapter(one.model).state_dict()
    assert kept.keys() == original.keys()
    assert all(torch.equal(tensor, original[name]) for name, tensor in kept.items())


@pytest.mark.slow
def test_dropout_depends_on_the_seed_and_the_iteration_alone(base: Path) -> None:
    """Whatever drew from torch's global generator before, such as the making of a base model."""

    def after(seed: int, noise: int, *iterations: int) -> dict[str, torch.Tensor]:
        one = learner(base, dropout=0.3)
        one.seed = seed
        for iteration in iterations:
            torch.manual_seed(noise + iteration)
            one.update(groups(), iteration, 0)
        return {name: tensor.clone() for name, tensor in trained_weights(one.model).items()}

    expected = after(7, 0, 1, 2)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in after(7, 99, 1, 2).items())
    other = after(8, 0, 1, 2)
    assert any(not torch.equal(tensor, expected[name]) for name, tensor in other.items())
    repeated = after(7, 0, 1, 1)
    assert any(not torch.equal(tensor, expected[name]) for name, tensor in repeated.items())


def test_the_reference_is_the_base_and_costs_no_copy(base: Path) -> None:
    one = learner(base)
    first = one.update(groups(), 1, 0).metrics
    assert one.reference is not None and not has_adapter(one.reference)
    pointers = {weight.data_ptr() for weight in one.model.parameters()}
    assert all(weight.data_ptr() in pointers for weight in one.reference.parameters())
    assert torch.equal(logits(one.reference), logits(load_model(base)))
    assert first["kl"] > 0.0, "after the first of two steps it has left the base"


def test_policies_over_one_base_share_its_tensors_and_learn_apart(base: Path) -> None:
    shared = load_model(base)
    one, other = with_shared_tensors(shared), with_shared_tensors(shared)
    for seed, model in enumerate((one, other)):
        add_adapter(model, lora(), seed)
    weight = "model.layers.0.self_attn.q_proj.base_layer.weight"
    assert one.get_parameter(weight) is other.get_parameter(weight)
    before = logits(other)
    Learner(Policy(adapter=lora()), ALGORITHM, one, 6).update(groups(), 1, 0)
    assert not torch.equal(logits(one), before) and torch.equal(logits(other), before)


def test_a_merged_model_says_what_the_adapter_says(base: Path) -> None:
    one = learner(base)
    one.update(groups(), 1, 0)
    whole = merged(one.model)
    assert not has_adapter(whole) and has_adapter(one.model)
    torch.testing.assert_close(
        logits(whole).log_softmax(-1), logits(one.model).log_softmax(-1), atol=1e-5, rtol=0
    )


def test_a_checkpoint_holds_the_adapter_alone_and_learning_goes_on(base: Path, tmp_path: Path) -> None:
    whole, first, second = learner(base), learner(base), learner(base, seed=2)
    whole.update(groups(), 1, 0)
    first.update(groups(), 1, 0)
    save_policy(tmp_path, first, TOKENIZER, 3)
    names = {item.name for item in tmp_path.iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "config.json"} <= names
    assert "model.safetensors" not in names
    assert load_policy(tmp_path, second) == 3
    for one in (whole, second):
        one.update(groups(), 2, 0)
    for name, weight in whole.weights().items():
        assert torch.equal(weight, second.weights()[name]), name


def test_the_folder_is_a_model_for_us_and_an_adapter_for_peft(base: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    one = learner(base)
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    torch.testing.assert_close(logits(load_model(tmp_path)), logits(one.model), atol=1e-4, rtol=1e-4)
    theirs = PeftModel.from_pretrained(load_model(base), str(tmp_path))
    assert torch.equal(logits(theirs), logits(one.model))
    assert read_shape(tmp_path).hidden == 32
    assert read_shape(tmp_path).parameters == sum(weight.numel() for weight in load_model(base).parameters())


def test_a_frozen_policy_takes_an_adapter_over(base: Path, tmp_path: Path) -> None:
    one = learner(base)
    one.update(groups(), 1, 0)
    save_frozen(tmp_path, one.model, TOKENIZER, 4)
    model = learner(base, seed=5).model
    assert load_frozen(tmp_path, model) == 4
    assert torch.equal(logits(model), logits(one.model))


def test_an_engine_takes_the_adapter_alone(base: Path) -> None:
    one, model = learner(base), learner(base, seed=9).model
    one.update(groups(), 1, 0)
    engine = TorchEngine(model, TOKENIZER)
    engine.load_weights(one.weights(), 1)
    assert torch.equal(logits(model), logits(one.model))
    with pytest.raises(EngineFailure, match="do not fit"):
        engine.load_weights({}, 2)


def test_another_kind_of_checkpoint_is_refused(base: Path, tmp_path: Path) -> None:
    adapted = learner(base)
    save_policy(tmp_path / "adapter", adapted, TOKENIZER, 1)
    whole = Learner(Policy(), ALGORITHM, load_model(base), 6)
    save_policy(tmp_path / "whole", whole, TOKENIZER, 1)
    with pytest.raises(CheckpointError, match=r'written with adapter.type = "lora"'):
        load_policy(tmp_path / "adapter", whole)
    with pytest.raises(CheckpointError, match=r'written with adapter.type = "none"'):
        load_policy(tmp_path / "whole", adapted)
    adapted.model.name_or_path = "/elsewhere/another"
    with pytest.raises(CheckpointError, match=r"trained on .*base, but this policy's model is /elsewhere"):
        load_policy(tmp_path / "adapter", adapted)


def test_dropout_is_at_work_in_training_passes_alone(base: Path) -> None:
    plain, dropped = learner(base), learner(base, dropout=0.5)
    for one in (plain, dropped):  # B is 0 at first, and what is left out of 0 is not seen
        with torch.no_grad():
            for name, weight in one.model.named_parameters():
                if ".lora_B." in name:
                    weight.fill_(0.01)
    torch.manual_seed(0)
    kept, lost = plain.update(groups(), 1, 0).metrics, dropped.update(groups(), 1, 0).metrics
    assert lost["mismatch_mean"] == pytest.approx(kept["mismatch_mean"], abs=1e-6)
    assert not math.isclose(lost["ratio_mean"], kept["ratio_mean"], rel_tol=1e-4)
    assert torch.equal(logits(dropped.model), logits(dropped.model)), "generation leaves nothing out"


def test_a_folder_with_an_adapter_becomes_one_with_the_whole_model(base: Path, tmp_path: Path) -> None:
    one = learner(base)
    one.update(groups(), 1, 0)
    save_policy(tmp_path, one, TOKENIZER, 1)
    assert merge_folder(tmp_path) and not merge_folder(tmp_path)
    names = {item.name for item in tmp_path.iterdir()}
    assert "model.safetensors" in names and not {name for name in names if name.startswith("adapter")}
    torch.testing.assert_close(logits(load_model(tmp_path)), logits(one.model), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("targets", [(), ("q_proj", "down_proj")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_is_bit_for_bit_that_of_peft(
    base: Path, targets: tuple[str, ...], dtype: torch.dtype
) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    ours, theirs = (load_model(base).to(dtype) for _ in range(2))
    add_adapter(ours, lora(target_modules=targets), 7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        settings = LoraConfig(r=4, lora_alpha=8, target_modules=list(targets) or "all-linear")
        inject_adapter_in_model(settings, theirs, "default")
    names = dict(theirs.named_parameters())
    assert [name for name, _ in ours.named_parameters()] == list(names)
    for index, (name, weight) in enumerate(ours.named_parameters()):
        assert torch.equal(weight, names[name]) and weight.dtype == names[name].dtype
        if ".lora_B." in name:
            with torch.no_grad():
                for part in (weight, names[name]):
                    part.fill_(0.01 * (index % 7 - 3))
    assert torch.equal(logits(ours), logits(theirs.eval()))
    whole = logits(ours)
    assert torch.allclose(logits(merged(ours)), whole, atol=1e-4 if dtype == torch.float32 else 0.3)


def test_an_adapter_fits_layers_with_transposed_weights() -> None:
    config = GPT2Config(vocab_size=30, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    model = GPT2LMHeadModel(config).eval()
    before = logits(model)
    add_adapter(model, lora(target_modules=("c_attn",)), 0)
    assert torch.equal(logits(model), before)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".lora_B." in name:
                weight.fill_(0.1)
    assert not torch.allclose(logits(model), before, atol=1e-3)
    assert torch.allclose(logits(merged(model)), logits(model), atol=1e-5)
