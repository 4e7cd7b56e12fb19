"""A colocated policy whose engine has its own copy of the weights, as vLLM has: it sleeps during updates."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.running import curve, events, small_config
from training_core.checkpoints import checkpoints
from training_core.errors import StalePolicy
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Answer, Prompt
from workers.actors.policy_workers import PolicyWorker
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt, WorkerSpec

pytestmark = pytest.mark.extended

VLLM = {"policies__planner__engine__type": "vllm", "policies__executor__engine__type": "vllm"}


class CopyingEngine(TorchEngine):
    """Generates with torch on a copy of the model, and refuses to while it sleeps."""

    def __init__(self, settings: Any, model: Any, tokenizer: Any, *, sleeps: bool) -> None:
        assert sleeps, "the worker of a trained, colocated policy"
        super().__init__(copy.deepcopy(model), tokenizer, max_batch=settings.sequences)
        self.calls: list[str] = []
        self.asleep = False

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        self._call("generate", asleep=False)
        return super().generate(prompts, settings, interrupted)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        self._call(f"load {version}", asleep=False)
        super().load_weights(state, version)

    def sleep(self) -> None:
        self._call("sleep", asleep=False)
        self.asleep = True

    def wake_up(self) -> None:
        self._call("wake up", asleep=True)
        self.asleep = False

    def _call(self, name: str, *, asleep: bool) -> None:
        assert self.asleep == asleep, f"{name}, asleep: {self.asleep}"
        if self.calls[-1:] != [name]:
            self.calls.append(name)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[CopyingEngine]:
    """The engines of all policies, in the order in which they were made; "vllm" is a CopyingEngine."""
    made: list[CopyingEngine] = []

    def make(settings: Any, model: Any, tokenizer: Any, **options: Any) -> CopyingEngine:
        made.append(CopyingEngine(settings, model, tokenizer, **options))
        return made[-1]

    monkeypatch.setattr("training_core.llm.generation.base.make_engine", make)
    return made


def run(folder: Path, model: Path, number: int = 1, resume_from: Path | None = None, **fields: Any) -> Path:
    config = small_config(model, **fields)
    assert run_attempt(Attempt(config, "r", number, folder, folder.parent, resume_from), local=True) == 0
    return folder


def test_results_equal_those_of_shared_weights(
    little_model: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shared = run(tmp_path / "shared", little_model)
    engines: list[CopyingEngine] = request.getfixturevalue("engines")
    copied = run(tmp_path / "copied", little_model, **VLLM)
    assert curve(copied) == curve(shared)
    sequence = [
        "generate",
        "sleep",
        "wake up",
        "load 1",
        "generate",
        "sleep",
        "wake up",
        "load 2",
        "generate",
    ]
    assert [engine.calls for engine in engines] == [sequence, sequence]
    for folder, transfers in ((shared, 0), (copied, 4)):
        assert [event["phase"] for event in events(folder, "phase")].count("sync") == transfers


def test_a_resumed_run_generates_with_the_checkpoints_weights(
    little_model: Path, tmp_path: Path, engines: list[CopyingEngine]
) -> None:
    folder = run(tmp_path / "whole", little_model, **VLLM, run__iterations=3)
    whole = {key: value for key, value in curve(folder).items() if key[1] == 3}
    half = run(tmp_path / "half", little_model, **VLLM, run__iterations=3)
    run(half, little_model, 2, checkpoints(half / "checkpoints")[2], **VLLM, run__iterations=3)
    assert engines[-1].calls[0] == "load 2"
    again = curve(half, 2)
    assert {key: again[key] for key in whole} == whole


def test_the_engine_wakes_up_after_a_failed_update(
    little_model: Path, tmp_path: Path, engines: list[CopyingEngine]
) -> None:
    worker = PolicyWorker(WorkerSpec("planner", "planner", small_config(little_model, **VLLM), tmp_path))
    worker.start(None)
    with pytest.raises(StalePolicy):
        worker.update([], 1, 5, set())
    assert engines[0].calls == ["sleep", "wake up"]
