"""Models are loaded from plain folders, and what cannot be loaded is refused with what to do."""

from pathlib import Path

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.errors import ModelError
from training_core.llm.models.loading import load_model, load_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_model().save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_folder_gives_the_model_in_the_precision_asked_for(
    folder: Path, precision: str, dtype: torch.dtype
) -> None:
    model = load_model(folder, precision)
    assert not model.training
    expected = make_model().state_dict()
    assert all(torch.equal(tensor, expected[name].to(dtype)) for name, tensor in model.state_dict().items())
    assert load_tokenizer(folder).eos_token_id == TOKENIZER.eos_token_id


@pytest.mark.parametrize(
    "damage", ["no folder", "no weights", "torn weights", "no config", "unknown architecture"]
)
def test_what_cannot_be_loaded_is_refused_with_what_to_do(folder: Path, damage: str) -> None:
    source = folder
    if damage == "no folder":
        source = folder / "nowhere"
    elif damage == "no weights":
        (folder / "model.safetensors").unlink()
    elif damage == "torn weights":
        (folder / "model.safetensors").write_bytes(b"torn")
    elif damage == "no config":
        (folder / "config.json").unlink()
    else:
        (folder / "config.json").write_text('{"model_type": "unheard_of"}')
    with pytest.raises(ModelError, match="set policies.*a folder with config.json"):
        load_model(source)


def test_pickled_weights_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(make_model().state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        load_model(folder)


def test_a_tokenizer_without_an_end_is_refused(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="no end-of-text token"):
        load_tokenizer(folder)


def test_a_precision_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="fp32, bf16"):
        load_model(folder, "fp8")
