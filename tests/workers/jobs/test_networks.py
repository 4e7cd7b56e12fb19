"""Short jobs of small networks: their results are compared with the run's own."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, small_networks
from training_core.checkpoints import name_of, read_state, writing
from training_core.config.files import load_config, to_toml
from training_core.config.marl import MarlConfig
from workers.driver.attempt import run_attempt
from workers.job import main
from workers.protocol import Attempt
from workers.storage.folders import JobFolder


def small(**overrides: Any) -> MarlConfig:
    return small_networks("tag_mappo", **{"evaluation__episodes": 8} | overrides)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of tag, with checkpoints of iterations 2 and 4."""
    folder = tmp_path_factory.mktemp("trained")
    assert run_attempt(Attempt(small(), "r", 1, folder, folder.parent), local=True) == 0
    return folder


def do(
    folder: Path, config: MarlConfig, job_kind: str, *checkpoints: Path, **parameters: Any
) -> tuple[int, JobFolder]:
    job, places = JobFolder(folder), [str(place) for place in checkpoints] + ["", ""]
    request = {"kind": job_kind, "parameters": parameters, "checkpoint": places[0], "other": places[1]}
    job.open(to_toml(config), request)
    return main([str(folder), "--home", str(folder.parent)]), job


def at(trained: Path, iteration: int) -> Path:
    return trained / "checkpoints" / f"iteration-{iteration:06d}"


@pytest.mark.parametrize("kind", ["eval", "eval_sampled"])
def test_an_evaluation_gives_the_runs_own_results(tmp_path: Path, trained: Path, kind: str) -> None:
    status, job = do(tmp_path / "j", small(), "evaluate", at(trained, 4), episodes=8, kind=kind)
    result, said = job.read("result") or {}, curve(trained)
    assert status == 0 and result["episodes"] == 8
    assert result["return"] == pytest.approx(said[f"{kind}/return", 4], rel=1e-6)
    assert result["return_std"] == pytest.approx(said[f"{kind}/return_std", 4], rel=1e-6)
    assert set(result["rewards"]) == {"adversaries", "good"} and "success" not in result


def test_an_evaluation_stores_transcripts(tmp_path: Path, trained: Path) -> None:
    _, job = do(tmp_path / "j", small(), "evaluate", at(trained, 4), episodes=8)
    episodes = job.kept()
    assert len(episodes) == 4  # the first one of each environment
    assert all(turn["board"]["kind"] == "plane" for each in episodes for turn in each["turns"])
    assert {each["versions"]["good"] for each in episodes} == {4}
    earned = sum(
        turn["candidates"][0]["reward"] for turn in episodes[0]["turns"] if turn["role"] == "adversaries"
    )
    assert earned == pytest.approx(episodes[0]["rewards"]["adversaries"], abs=1e-3)


def test_without_a_checkpoint_untrained_networks_play(tmp_path: Path, trained: Path) -> None:
    status, job = do(tmp_path / "j", small(), "evaluate", episodes=8)
    assert status == 0
    assert (job.read("result") or {})["return"] == pytest.approx(curve(trained)["eval/return", 0], rel=1e-6)


def test_a_match_uses_each_sides_checkpoint(tmp_path: Path, trained: Path) -> None:
    early, late = at(trained, 2), at(trained, 4)
    status, job = do(tmp_path / "j", small(), "match", early, late, episodes=8, kind="eval")
    lines = (job.read("result") or {})["seatings"]
    assert status == 0
    assert [tuple(line["seats"][role] for role in ("adversaries", "good")) for line in lines] == [
        ("a", "a"), ("b", "b"), ("a", "b"), ("b", "a"),
    ]  # fmt: skip
    for line, place in zip(lines, (early, late), strict=False):
        _, alone = do(tmp_path / place.name, small(), "evaluate", place, episodes=8)
        assert line["rewards"] == (alone.read("result") or {})["rewards"]
    with writing(tmp_path / "mixed", 4, read_state(late)) as draft:
        shutil.copytree(late, draft, dirs_exist_ok=True)
        shutil.copy(early / "adversaries" / "actor.safetensors", draft / "adversaries")
    mixed = tmp_path / "mixed" / name_of(4)
    _, by_hand = do(tmp_path / "hand", small(), "evaluate", mixed, episodes=8)
    assert lines[2]["rewards"] == (by_hand.read("result") or {})["rewards"]
    assert len(job.kept()) == 16 and job.kept()[0]["title"].startswith("adversaries: a, good: a · ")


def test_a_dry_run_describes_the_run(tmp_path: Path) -> None:
    config = small(rollout__steps=100, algorithm__value_clip=0.1)
    status, job = do(tmp_path / "j", config, "dry_run", episodes=2)
    result = job.read("result") or {}
    assert result["unused"] == [{"path": "algorithm.value_clip", "why": "only with clip_value = true"}]
    assert status == 0 and len(job.kept()) == 2
    described = {each["policy"]: each for each in result["policies"]}
    assert (described["good"]["observation"], described["good"]["actions"]) == (14, "5 choices")
    assert described["adversaries"]["agents"] == ["adversary_0", "adversary_1", "adversary_2"]
    assert result["environment_steps"] == 4 * 25  # a quarter of what the config asks for
    assert result["iteration_seconds"] == pytest.approx(4 * 100 / result["steps_per_second"])
    assert result["run_seconds"] == pytest.approx(4 * result["iteration_seconds"])
    assert set(result["metrics"]) == {"adversaries", "good"} and "kl" in result["metrics"]["good"]


def test_a_dry_run_of_recurrent_networks_uses_complete_chunks(tmp_path: Path) -> None:
    config = load_config("recall_mappo_gru", {"rollout.environments": 2, "rollout.steps": 80})
    assert isinstance(config, MarlConfig)
    longer = config.policies["agents"].network.model_copy(update={"chunk_length": 40})
    policies = {"agents": config.policies["agents"].model_copy(update={"network": longer})}
    status, job = do(tmp_path / "j", config.model_copy(update={"policies": policies}), "dry_run")
    assert status == 0 and (job.read("result") or {})["environment_steps"] == 2 * 40


def test_a_checkpoint_of_a_custom_network_is_evaluated(tmp_path: Path) -> None:
    network = {"type": "custom", "path": "examples.custom.decaying_trace:DecayingTrace", "chunk_length": 4}
    config = small_networks("recall_mappo_gru", policies__agents__network=network, evaluation__episodes=8)
    run = tmp_path / "run"
    assert run_attempt(Attempt(config, "r", 1, run, tmp_path), local=True) == 0
    status, job = do(tmp_path / "j", config, "evaluate", at(run, 4), episodes=8)
    assert status == 0
    assert (job.read("result") or {})["return"] == pytest.approx(curve(run)["eval/return", 4], rel=1e-6)
    other = small_networks("recall_mappo_gru", evaluation__episodes=8)
    status, job = do(tmp_path / "other", other, "evaluate", at(run, 4))
    assert status == 1 and "does not fit this policy's networks" in (job.read("error") or {})["reason"]


def test_a_config_that_does_not_fit_is_refused(tmp_path: Path, trained: Path) -> None:
    wider = small(policies__good__network__hidden_dim=32)
    status, job = do(tmp_path / "j", wider, "evaluate", at(trained, 4))
    assert status == 1 and "does not fit this policy's networks" in (job.read("error") or {})["reason"]
    missing = small(environment__type="pettingzoo", environment__path="no.such:env")
    status, job = do(tmp_path / "k", missing, "dry_run")
    assert status == 1 and "no.such" in (job.read("error") or {})["reason"]
