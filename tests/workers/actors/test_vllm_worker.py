"""A colocated policy's worker with a real vLLM (a build for the CPU will do): `make test-vllm`."""

from pathlib import Path

import pytest

from tests.training_core.llm.toys import naive_logprobs
from tests.workers.running import small_config
from training_core.llm.base_models.folder_creation import silent
from training_core.llm.base_models.tiny import TinyRecipe
from training_core.llm.base_models.warm_start import make_tiny
from training_core.llm.environments.host import EnvironmentHost
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.policy_workers import PolicyWorker
from workers.protocol import WorkerSpec

pytestmark = pytest.mark.vllm
ROUNDING = 0.05
"""How far logprobs of two kernels in fp32 may be apart."""


def test_a_colocated_policy_generates_with_what_it_has_learned(tmp_path: Path) -> None:
    engine = {"type": "vllm", "max_batch": 64, "context": 128, "eager": True}
    recipe = TinyRecipe(
        hidden_size=64, layers=2, heads=2, steps=60, batch=64
    )  # heads of 32: vLLM's least on a CPU
    make_tiny(small_config(tmp_path).environment, recipe, tmp_path / "model", silent)
    config = small_config(
        tmp_path / "model",
        team__roles__executor__policy="planner",
        policies__planner__engine=engine,
        policies__planner__learner__learning_rate=0.01,
    )
    worker = PolicyWorker(WorkerSpec("planner", "planner", config, tmp_path), silent)
    pool = EnvironmentHost(config.environment, config.run.seed)
    coordinator = RolloutCoordinator(config, {"planner": worker}, pool, side_by_side=False)
    coordinator.start(None)
    for iteration in (1, 2):
        collected = coordinator.collect(iteration)
        turns = [turn for episode in collected.transcripts for turn in episode["turns"]]
        candidates = [(turn, candidate) for turn in turns for candidate in turn["candidates"]]
        assert candidates and {v for _, one in candidates for v in one["versions"]} == {iteration - 1}
        for turn, candidate in candidates[:8]:
            expected = naive_logprobs(worker.learner.model, turn["prompt_ids"], candidate["token_ids"])
            assert candidate["logprobs"] == pytest.approx(expected, abs=ROUNDING)
        coordinator.update(iteration)
        spans = coordinator.publish(iteration)
        assert [span.phase for span in spans] == ["sync"]
