"""Where a model's folder is: anywhere for a local user, below the data folder for a process of a server."""

from pathlib import Path

import pytest

from training_core.errors import ConfigError, ModelError
from training_core.llm.base_models.registry import model_folder, resolve_model
from training_core.llm.environments.dataset import data_file
from training_core.llm.environments.plan_path.game import PlanPath
from training_core.served import VARIABLE

CHECKPOINT = "runs/abcdefgh/checkpoints/iteration-000010/planner"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a model and a checkpoint; the working folder has folders of the same and of other names."""
    for name in ("home/models/mine", f"home/{CHECKPOINT}", "work/mine", "work/org/name", "work/out/model/x"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("name", ["mine", "org/name", "out/model/x", "./mine"])
def test_a_local_user_names_any_folder(name: str, home: Path) -> None:
    assert model_folder(name, home) == Path(name)


def test_a_local_user_also_names_models_of_the_data_folder(home: Path) -> None:
    (home / "models" / "other").mkdir()
    assert model_folder("other", home) == home / "models" / "other"
    assert model_folder(CHECKPOINT, home) == home / CHECKPOINT
    assert model_folder("Qwen/Qwen3-0.6B", home) is None


def test_a_process_of_a_server_reads_below_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    assert model_folder("mine", home) == model_folder("models/mine", home) == home / "models" / "mine"
    assert model_folder(CHECKPOINT, home) == home / CHECKPOINT
    assert model_folder(str(home / "models" / "mine"), home) == home / "models" / "mine"
    assert resolve_model("Qwen/Qwen3-0.6B", PlanPath(), home) == "Qwen/Qwen3-0.6B"
    for name in ("org/name", "out/model/x"):
        with pytest.raises(ModelError, match="would be read from the working folder"):
            model_folder(name, home)


def test_a_process_of_a_server_reads_data_below_the_data_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lines.jsonl").write_text("{}")
    assert data_file("lines.jsonl") == Path("lines.jsonl").resolve()
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(ConfigError, match="there is no file"):
        data_file("lines.jsonl")
    (home / "data").mkdir()
    (home / "data" / "lines.jsonl").write_text("{}")
    assert data_file("lines.jsonl") == (home / "data" / "lines.jsonl").resolve()
