"""Learners in processes of their own, that update one policy together."""

import multiprocessing
import socket
from dataclasses import dataclass, field
from typing import Any

import torch

from training_core.config.algorithms import AtGrpo
from training_core.config.models import Learner as LearnerSettings
from training_core.config.models import Optimisation, Policy
from training_core.llm.learning.annotations import Annotations

ALGORITHM = AtGrpo(kl_coefficient=0.1, entropy_coefficient=0.01)


@dataclass
class Outcome:
    """What one process has after some updates."""

    metrics: list[dict[str, float]]
    weights: torch.Tensor
    annotations: Annotations = field(default_factory=dict)


def updated(
    settings: Optimisation | None = None, size: int = 1, iterations: int = 3, precision: str = "fp32"
) -> list[Outcome]:
    """Outcomes of `size` processes, by rank."""
    settings = settings or LearnerSettings(minibatches=2, epochs=2, schedule="constant")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=_work, args=(rank, size, port, settings, iterations, queue))
        for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    found: dict[int, Any] = dict(queue.get(timeout=240) for _ in workers)
    for worker in workers:
        worker.join()
    for outcome in found.values():
        if isinstance(outcome, str):
            raise AssertionError(outcome)
    return [found[rank] for rank in range(size)]


def _work(rank: int, size: int, port: int, settings: Optimisation, iterations: int, queue: Any) -> None:
    import traceback

    try:
        queue.put((rank, outcome(rank, size, port, settings, iterations)))
    except Exception:
        queue.put((rank, traceback.format_exc()))


def outcome(rank: int, size: int, port: int, settings: Optimisation, iterations: int) -> Outcome:
    """The updates of one process."""
    from tests.training_core.llm.learning.test_learner import groups
    from tests.training_core.llm.toys import make_model
    from training_core.llm.learning.processes import join
    from training_core.llm.learning.registry import make_learner

    torch.set_num_threads(1)
    processes = join(rank, size, "127.0.0.1", port, gpu=False)
    learner = make_learner(Policy(learner=settings), ALGORITHM, make_model(), 10, processes=processes)
    metrics, annotations = [], {}
    for iteration in range(1, iterations + 1):
        result = learner.update(groups(), iteration, 0)
        metrics.append(result.metrics)
        annotations = result.annotations
    weights = torch.cat([tensor.flatten() for tensor in learner.weights().values()]).clone()
    return Outcome(metrics, weights, annotations)
