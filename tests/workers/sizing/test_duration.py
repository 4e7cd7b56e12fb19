"""Times by hand, from the rates of the measured step."""

from typing import Any

import pytest

from training_core.config.files import load_config
from training_core.config.run import RunConfig
from workers.sizing.duration import duration

SIZE = 1_720_000_000
STEP = {
    "team.roles.planner.sampling.max_tokens": 256, "team.roles.executor.sampling.max_tokens": 256,
    "rollout.tasks": 32, "rollout.group_size": 8, "environment.max_turns": 2,
    "algorithm.kl_coefficient": 0.0,
}  # fmt: skip


def config(**fields: Any) -> RunConfig:
    """Two policies that share a GPU, in the measured step; `fields` are of both."""
    values = {"devices.rollout_gpus": 0.5} | {
        name.replace("__", "."): value for name, value in fields.items()
    }
    both = {f"policies.{p}.{name}": value for p in ("planner", "executor") for name, value in values.items()}
    result = load_config("plan_path_duo", STEP | both)
    assert isinstance(result, RunConfig)
    return result


def times(config: RunConfig, size: int = SIZE, prompt: int = 256, rounds: tuple[int, int] = (10, 2)) -> Any:
    return duration(config, {"planner": size, "executor": size}, prompt, rounds, 128)


def test_the_measured_step_takes_as_long_as_it_was_measured() -> None:
    """262,144 tokens in 23.3 s of rollout and 28.7 s of update."""
    result = times(config())
    assert result.rollout == pytest.approx(262_144 / 11_250) == pytest.approx(23.3, rel=0.01)
    computed = 262_144 + 32 * 2 * 2 * 256
    assert result.update == pytest.approx(computed / 10_000) == pytest.approx(28.7, rel=0.05)
    evaluation = 128 * 2 * 512 / (11_250 * 0.5**0.78)
    assert result.evaluation == pytest.approx(evaluation)
    assert result.total == pytest.approx(10 * (result.rollout + result.update) + 2 * evaluation)


def test_a_gpu_for_each_policy_halves_the_update_only() -> None:
    """Roles play one after another."""
    shared, alone = times(config()), times(config(devices__rollout_gpus=1))
    assert alone.update == pytest.approx(shared.update / 2) and alone.rollout == shared.rollout


def test_workers_divide_the_answers() -> None:
    """Two workers with 128 answers each have half the tokens at 0.5^0.78 of the rate; two of update half the time."""
    pools = {"devices__placement": "apart", "devices__rollout_gpus": 1, "devices__update_gpus": 1}
    one = times(config(**pools))
    two = times(config(**pools, devices__rollout_workers=2, devices__update_workers=2))
    assert two.rollout == pytest.approx(one.rollout / 2 / 0.5**0.78)
    assert two.update == pytest.approx(one.update / 2)


def test_further_passes_and_parameters_take_longer() -> None:
    plain = times(config())
    assert times(config(), size=2 * SIZE).total == pytest.approx(2 * plain.total)
    again = times(config(learner__activation_checkpointing=True))
    assert again.update == pytest.approx(plain.update * 4 / 3) and again.rollout == plain.rollout


def test_nothing_is_known_of_cpus_and_of_models_of_unknown_size() -> None:
    assert times(config(devices__rollout_gpus=0)) is None
    assert duration(config(), {"planner": SIZE}, 256, (1, 1), 1) is None
