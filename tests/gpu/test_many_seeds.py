"""Several seeds at once give each seed the numbers of its own trainer."""

from typing import Any

import pytest

from tests.gpu.many_seeds import ManySeeds
from tests.training_core.marl.environments.mpe.test_torch_spread import config
from training_core.errors import ConfigError
from training_core.marl.trainer import MarlTrainer

SEEDS = (3, 0, 11)
MLP = {"one": {"network": {"type": "mlp", "hidden_dim": 16}, "learner": {"minibatch_size": 60, "epochs": 3}}}


def settings(seed: int = 0, **more: Any) -> Any:
    sections: dict[str, Any] = {
        "run": {"name": "seeds", "iterations": 3, "seed": seed},
        "policies": MLP,
        "rollout": {"environments": 4, "steps": 20},
    }
    return config("torch", **sections | more)


@pytest.mark.parametrize("algorithm", ["mappo", "ippo"])
@pytest.mark.parametrize("continuous", [False, True])
def test_every_seed_has_the_numbers_of_its_own_trainer(algorithm: str, continuous: bool) -> None:
    more: dict[str, Any] = {"algorithm": {"type": algorithm}}
    more["environment"] = {
        "type": "mpe_simple_spread", "backend": "torch", "max_cycles": 10, "continuous_actions": continuous
    }  # fmt: skip
    together = ManySeeds(settings(**more), SEEDS)
    alone = [MarlTrainer(settings(seed, **more)) for seed in SEEDS]
    for iteration in (1, 2, 3):
        rows = together.iterate(iteration)
        for row, trainer in zip(rows, alone, strict=True):
            episodes = trainer.collect(iteration).episodes
            expected = trainer.update(iteration)["one"]
            returns = sum(part.rewards["agents"] for part in episodes) / len(episodes)
            assert row["return"] == pytest.approx(returns, rel=1e-4)
            for name in row.keys() - {"return"}:
                assert row[name] == pytest.approx(expected[name], rel=2e-3, abs=2e-4), name


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"policies": {"one": {"network": {"type": "gru"}}}}, "network.type"),
        ({"algorithm": {"type": "mappo", "target_kl": 0.1}}, "target_kl"),
        ({"rollout": {"environments": 4, "steps": 25}}, "rollout.steps"),
    ],
)
def test_what_cannot_be_stacked_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ManySeeds(settings(**more), SEEDS)
