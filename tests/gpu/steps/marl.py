"""Small networks on the device."""

from functools import partial
from typing import Any

from tests.gpu.learners import largest_difference
from tests.gpu.setting import Figures, Setting
from tests.gpu.timing import device_name, timed
from training_core.config.files import parse_config
from training_core.config.marl import MarlConfig
from training_core.marl.trainer import MarlTrainer

NETWORKS = ("mlp", "gru", "lstm", "transformer")
COMPARED = (
    "actor_loss",
    "value_loss",
    "entropy",
    "kl",
    "grad_norm",
    "critic_grad_norm",
    "explained_variance",
)
ITERATIONS = 2


def check_marl(setting: Setting) -> Figures:
    """Two iterations of MAPPO and IPPO with every network, on the device and on the CPU with the same noise: the largest
    difference of their metrics; a resumed run continues.
    """
    figures: Figures = {"largest_metric_error": 0.0, "rows": [], "resumed_metric_error": 0.0}
    for algorithm in ("mappo", "ippo"):
        for network in setting.pick(NETWORKS, ("mlp", "gru")):
            rows = [
                _metrics(_trainer(algorithm, network, gpus)) for gpus in (0.0, 0.0 if setting.small else 1.0)
            ]
            error = largest_difference(rows[1], rows[0], COMPARED)
            figures["rows"].append({"algorithm": algorithm, "network": network, "largest_error": error})
            figures["largest_metric_error"] = max(figures["largest_metric_error"], error)
            setting.note(figures)
    figures["resumed_metric_error"] = _resumed_error(setting)
    return figures


def measure_marl(setting: Setting) -> Figures:
    """Environment steps per second of MAPPO on simple_spread, with worlds on the device and on the host."""
    figures: Figures = {"card": device_name(setting.device), "rows": []}
    for backend in ("torch", "native"):
        worlds, iterations = setting.pick((16_384, 5), (8, 1))
        trainer = MarlTrainer(_speed_config(setting, backend, worlds))
        _iterate(trainer, 1, 1)
        seconds = timed(partial(_iterate, trainer, 2, iterations), setting.device)
        steps = iterations * worlds * 25
        figures["rows"].append({"backend": backend, "worlds": worlds, "steps_per_second": steps / seconds})
        setting.note(figures)
        trainer.close()
    figures["steps_per_second"] = figures["rows"][0]["steps_per_second"]
    return figures


def _iterate(trainer: MarlTrainer, first: int, count: int) -> None:
    for iteration in range(first, first + count):
        trainer.collect(iteration)
        trainer.update(iteration)


def _trainer(algorithm: str, network: str, gpus: float) -> MarlTrainer:
    settings: dict[str, Any] = {"type": network, "hidden_dim": 32}
    if network != "mlp":
        settings |= {"recurrent_hidden_dim": 32, "chunk_length": 5}
    return MarlTrainer(
        config_of(
            policies={"one": {"network": settings}},
            algorithm={"type": algorithm},
            environment={"type": "mpe_simple_spread", "max_cycles": 30},
            rollout={"environments": 16, "steps": 25},
            resources={"gpus": gpus},
        )
    )


def _speed_config(setting: Setting, backend: str, worlds: int) -> MarlConfig:
    minibatch = worlds * 25 * 3 // 4
    return config_of(
        policies={
            "one": {
                "network": {"type": "mlp", "hidden_dim": 128},
                "learner": {"epochs": 4, "minibatch_size": minibatch, "precision": "fp32"},
            }
        },
        algorithm={"type": "mappo"},
        environment={"type": "mpe_simple_spread", "max_cycles": 25, "backend": backend},
        rollout={"environments": worlds, "steps": 25},
        resources={"gpus": 0.0 if setting.small else 1.0},
    )


def config_of(**sections: Any) -> MarlConfig:
    """A config of one policy."""
    parsed = parse_config(
        {
            "run": {"name": "gpu", "iterations": 100},
            "team": {"roles": {"agents": {"policy": "one"}}},
            **sections,
        }
    )
    assert isinstance(parsed, MarlConfig)
    return parsed


def _metrics(trainer: MarlTrainer) -> list[dict[str, float]]:
    rows = []
    for iteration in range(1, ITERATIONS + 1):
        trainer.collect(iteration)
        rows.append(trainer.update(iteration)["one"])
    trainer.close()
    return rows


def _resumed_error(setting: Setting) -> float:
    """The difference of an update after a resume from that without."""
    gpus = 0.0 if setting.small else 1.0
    trainer = _trainer("mappo", "gru", gpus)
    trainer.collect(1)
    trainer.update(1)
    folder = setting.folder / "marl-checkpoint"
    trainer.save(folder)
    resumed = _trainer("mappo", "gru", gpus)
    resumed.load(folder)
    rows = []
    for continued in (trainer, resumed):
        continued.collect(2)
        rows.append([continued.update(2)["one"]])
    return largest_difference(rows[1], rows[0], COMPARED)
