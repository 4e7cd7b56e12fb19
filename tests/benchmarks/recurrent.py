"""Training of networks with memory relative to an MLP of the same width, on one thread.

    python -m tests.benchmarks.recurrent [--width 128] [--iterations 3] [--repeats 5] [--precision fp32]

Collection and update of MAPPO on native simple_spread: 64 environments, 100 steps, 4 epochs, minibatches of 1,600 steps. The MLP
has two hidden layers; the others have one, and a memory of the same width instead of the second. They alternate; each repeat
continues the training. Prints medians of environment steps per CPU second, of their parts, and of the ratios of each
repeat. Takes about three minutes.
"""

import argparse
import os
import time
from statistics import median
from typing import Any

import torch

from tests.benchmarks.marl_throughput import SPREAD, Shape, config
from training_core.config.marl import MarlConfig
from training_core.marl.trainer import MarlTrainer
from workers.actors.machine import prepare_process

KINDS = ("mlp", "gru", "lstm", "transformer")
CHUNK = 20
"""Steps of backpropagation through time; not a divisor of the episodes' 25, so that episodes begin within chunks."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--iterations", type=int, default=3, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    arguments = parser.parse_args()
    prepare_process(1)
    shape = Shape(hidden=arguments.width)
    trainers = {kind: MarlTrainer(_config(kind, shape, arguments.precision)) for kind in KINDS}
    rows: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for repeat in range(arguments.repeats + 1):
        first = 1 + repeat * arguments.iterations
        for kind, trainer in trainers.items():
            rows[kind].append(_seconds(trainer, range(first, first + arguments.iterations)))
    print(
        f"width {arguments.width}, {arguments.precision}, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}"
    )
    for kind, parts in rows.items():
        measured = parts[1:]  # the first warms up
        collection, update = (median(column) / arguments.iterations for column in zip(*measured, strict=True))
        ratio = median(sum(mlp) / sum(own) for mlp, own in zip(rows["mlp"][1:], measured, strict=True))
        print(
            f"{kind}: {shape.frames / (collection + update):,.0f} steps per CPU second, {ratio:.2f} x mlp "
            f"(collection {collection * 1e3:.0f} ms, update {update * 1e3:.0f} ms per iteration)"
        )


def _config(kind: str, shape: Shape, precision: str) -> MarlConfig:
    settings = config(SPREAD, shape, {"precision": precision}).model_dump(exclude_unset=True)
    network: dict[str, Any] = {"type": kind, "hidden_dim": shape.hidden, "identity_dim": 0}
    if kind != "mlp":
        network |= {"hidden_layers": 1, "recurrent_hidden_dim": shape.hidden, "chunk_length": CHUNK}
    settings["policies"]["shared"]["network"] = network
    return MarlConfig.model_validate(settings)


def _seconds(trainer: MarlTrainer, span: range) -> tuple[float, float]:
    """CPU seconds of collection and of updates."""
    collection, update = 0.0, 0.0
    for iteration in span:
        began = time.process_time()
        trainer.collect(iteration)
        played = time.process_time()
        trainer.update(iteration)
        collection, update = collection + played - began, update + time.process_time() - played
    return collection, update


if __name__ == "__main__":
    main()
