"""BenchMARL's side of tests/benchmarks/marl_throughput.py, run by the Python that `make benchmarl` sets up.

MAPPO on VMAS simple_spread, three agents, discrete actions, as the shape on the command line says. Prints one JSON line: frames,
wall and CPU seconds of the iterations after the first ones, which warm up.
"""

import json
import sys
import tempfile
import time
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

WARM_UP = 2


class Clock(Callback):
    """When iterations ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[float, float]] = []

    def on_train_end(self, training_td: Any, group: str) -> None:
        self.ends.append((time.perf_counter(), time.process_time()))


def main(shape: dict[str, int]) -> None:
    """Run, print."""
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    config.prefer_continuous_actions = False
    config.lr, config.clip_grad_val = 3e-4, 0.5
    config.on_policy_n_envs_per_worker = shape["environments"]
    config.on_policy_collected_frames_per_batch = shape["environments"] * shape["steps"]
    config.on_policy_n_minibatch_iters = shape["epochs"]
    config.on_policy_minibatch_size = shape["minibatch"]
    config.max_n_frames, config.max_n_iters = None, WARM_UP + shape["iterations"]
    config.evaluation, config.render, config.loggers, config.create_json = False, False, [], False
    config.save_folder = tempfile.mkdtemp()
    task = VmasTask.SIMPLE_SPREAD.get_from_yaml()
    task.config["max_steps"] = shape["max_cycles"]
    network = MlpConfig(
        num_cells=[shape["hidden"]] * 2, activation_class=torch.nn.Tanh, layer_class=torch.nn.Linear
    )
    clock = Clock()
    Experiment(
        task=task,
        algorithm_config=MappoConfig.get_from_yaml(),
        model_config=network,
        critic_model_config=network,
        seed=0,
        config=config,
        callbacks=[clock],
    ).run()
    (wall, cpu), (wall_end, cpu_end) = clock.ends[WARM_UP - 1], clock.ends[-1]
    frames = shape["iterations"] * config.on_policy_collected_frames_per_batch
    sys.stdout.write(json.dumps({"frames": frames, "wall": wall_end - wall, "cpu": cpu_end - cpu}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
