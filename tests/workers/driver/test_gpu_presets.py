"""The presets on GPUs, with a small random model of the same architecture in place of the pretrained one."""

import re
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from tests.training_core.llm.learning.chat_tokenizers import chat_tokenizer
from tests.workers.running import events
from training_core.config.effects import unused_settings
from training_core.config.files import load_config, preset_names, read_gallery
from training_core.config.profiles import PROFILES, profile_overrides
from training_core.config.run import RunConfig
from workers.run import main
from workers.sizing import estimates
from workers.sizing.placement import demand

PRESETS = [name for name in preset_names() if name.startswith("qwen3_")]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""In the manner of Qwen3's: an empty thought where thinking is switched off."""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of 100,000 parameters with random weights."""
    folder = tmp_path_factory.mktemp("qwen3") / "model"
    tokenizer = chat_tokenizer(TEMPLATE)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=True, max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("preset", PRESETS)
def test_the_memory_fits_the_card_that_the_gallery_names(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the estimate from the published sizes, with the sizes that are "auto" on that card and a tenth of it to spare."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))  # no download counts
    named = re.search(r"one GPU with (\d+) GB", read_gallery(preset)["time"])
    card = int(named[1]) * 10**9 if named else 0
    policies = estimates.estimate(load_config(preset), tmp_path, card=card).policies
    peak = sum(worker.peak for policy in policies for worker in policy.workers)
    assert 0 < peak < (1 - estimates.SPARE) * card, f"{peak / 10**9:.1f} GB"


@pytest.mark.parametrize("preset", PRESETS)
def test_the_gallery_has_the_hours_of_the_estimate(
    preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    duration = estimates.estimate(load_config(preset), tmp_path).duration
    hours = re.search(r"about (\d+) hours? on an H100", read_gallery(preset)["time"])
    assert hours and duration and int(hours[1]) == round(duration.total / 3600)


@pytest.mark.parametrize("preset", PRESETS)
def test_eight_gpus_are_pools_apart(preset: str) -> None:
    """By the profile that the documentation names."""
    config = load_config(preset)
    spread = load_config(preset, profile_overrides("recommended", config))
    assert isinstance(spread, RunConfig) and demand(spread).gpus == PROFILES["recommended"].gpus == 8
    assert {policy.devices.placement for policy in spread.policies.values()} == {"apart"}
    assert unused_settings(spread) == unused_settings(config) == []


@pytest.mark.extended
@pytest.mark.timeout(600)
@pytest.mark.parametrize("preset", PRESETS)
def test_two_iterations_with_a_small_model(preset: str, model: Path, tmp_path: Path) -> None:
    config = load_config(preset)
    assert isinstance(config, RunConfig)
    words = [
        "run.iterations=2",
        "rollout.tasks=2",
        "environment.max_turns=2",
        "evaluation.episodes=2",
        "evaluation.probes=1",
    ]
    for name in config.policies:
        fields = (
            f"model={model}",
            "devices.rollout_gpus=0",
            "learner.precision=fp32",
            "learner.micro_batch_tokens=2048",
        )
        words += [f"policies.{name}.{field}" for field in fields]
    words += [f"team.roles.{role}.sampling.max_tokens=8" for role in config.team.roles]
    assert main(["--preset", preset, "--check", *words, "--home", str(tmp_path)]) == 0
    assert main(["--preset", preset, "--local", *words, "--home", str(tmp_path)]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    starting = next(event for event in events(folder, "status") if event["state"] == "starting")
    engines = starting["facts"]["provenance"]["engines"]
    assert set(engines) == set(config.policies)
    assert all(engine.startswith("torch: ") and "CPU" in engine for engine in engines.values())
    assert 'type = "auto"' in (folder / "config.toml").read_text()
