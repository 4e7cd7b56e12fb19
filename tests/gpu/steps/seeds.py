"""Several seeds at once on the device."""

from functools import partial

from tests.gpu.many_seeds import ManySeeds
from tests.gpu.setting import Figures, Setting
from tests.gpu.steps.marl import config_of
from tests.gpu.timing import device_name, timed
from training_core.config.marl import MarlConfig

SEEDS = 32
WORLDS, STEPS, ITERATIONS = 64, 100, 5


def measure_seeds(setting: Setting) -> Figures:
    """Time of MAPPO with 32 seeds at once relative to one seed, with 64 worlds each."""
    figures: Figures = {"card": device_name(setting.device), "rows": []}
    iterations = setting.pick(ITERATIONS, 1)
    for seeds in (1, setting.pick(SEEDS, 3)):
        trainer = ManySeeds(_config(setting), range(seeds))
        trainer.iterate(1)
        seconds = timed(partial(_iterate, trainer, iterations), setting.device)
        worlds = trainer.config.rollout.environments
        steps = iterations * seeds * worlds * trainer.config.rollout.steps
        figures["rows"].append({"seeds": seeds, "seconds": seconds, "steps_per_second": steps / seconds})
        setting.note(figures)
    one, several = (row["seconds"] for row in figures["rows"])
    return figures | {"time_to_one_seed": several / one}


def _iterate(trainer: ManySeeds, count: int) -> None:
    for iteration in range(2, 2 + count):
        trainer.iterate(iteration)


def _config(setting: Setting) -> MarlConfig:
    learner = {"epochs": 4, "minibatch_size": 4800}
    return config_of(
        policies={"one": {"network": {"type": "mlp", "hidden_dim": 64}, "learner": learner}},
        algorithm={"type": "mappo"},
        environment={"type": "mpe_simple_spread", "max_cycles": 25, "backend": "torch"},
        rollout={"environments": setting.pick(WORLDS, 2), "steps": setting.pick(STEPS, 25)},
        resources={"gpus": 0.0 if setting.small else 1.0},
    )
