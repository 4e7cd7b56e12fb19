"""`troupe model list` and `troupe model add`."""

import json
from pathlib import Path

from transformers import LlamaForCausalLM

from tests.training_core.llm.base_models.test_gguf import TEMPLATE, write_gguf
from tests.training_core.llm.base_models.test_gguf import model as model
from tests.troupe_client.cli.conftest import Troupe


def test_a_gguf_file_is_added_and_listed(troupe: Troupe, model: LlamaForCausalLM, tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    write_gguf(file, model, TEMPLATE)
    added = troupe("model", "add", str(file), "--name", "mine")
    assert added.status == 0 and "mine is ready" in added.out
    models = {each["name"]: each for each in json.loads(troupe("model", "list", "--json").out)}
    assert models["mine"]["ready"] and models["mine"]["parameters"] == model.num_parameters()
    assert models["smollm2"]["parameters"] == 134_515_008 and not models["smollm2"]["ready"]
    assert "tiny" in troupe("model", "list").out


def test_an_invalid_model_is_refused(troupe: Troupe, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = troupe("model", "add", str(tmp_path / "empty"))
    assert refused.status == 1 and "neither model.safetensors nor one .gguf file" in refused.err
    assert "Traceback" not in refused.err + refused.out
