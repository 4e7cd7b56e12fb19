"""Learners in processes of their own, that update one policy together."""

import multiprocessing
import socket
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.algorithms.config import AtGrpo
from training_core.algorithms.registry import Algorithm
from training_core.config.models import AnyLearner, Devices, Policy
from training_core.llm.learning.update_metrics import Annotations
from training_core.llm.models.loading import DTYPES

READ_ONCE = ["torch", "transformers", "deepspeed", "training_core.llm.learning.learner"]
ALGORITHM = AtGrpo(kl_coefficient=0.1, entropy_coefficient=0.01)


@dataclass
class Outcome:
    """What one process has after some updates."""

    metrics: list[dict[str, float]]
    weights: Any
    """A tensor; an array on its way here."""
    annotations: Annotations = field(default_factory=dict)


@dataclass(frozen=True)
class Errand:
    """What the processes shall do."""

    settings: AnyLearner
    size: int = 1
    first: int = 1
    last: int = 3
    read_from: Path | None = None
    """A policy's folder to go on from."""
    write_to: Path | None = None
    precision: str = "fp32"
    algorithm: Algorithm = ALGORITHM


def updated(errand: Errand) -> list[Outcome]:
    """Outcomes of the processes, by rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context(
        "forkserver"
    )  # a process of its own for each, but torch is read once
    context.set_forkserver_preload(READ_ONCE)
    queue = context.Queue()
    ranks = range(errand.size)
    workers = [context.Process(target=_work, args=(rank, port, errand, queue)) for rank in ranks]
    for worker in workers:
        worker.start()
    found: dict[int, Any] = dict(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    for outcome in found.values():
        if isinstance(outcome, str):
            raise AssertionError(outcome)
        outcome.weights = torch.from_numpy(outcome.weights)
    return [found[rank] for rank in ranks]


def _work(rank: int, port: int, errand: Errand, queue: Any) -> None:
    try:
        queue.put((rank, _outcome(rank, port, errand)))
    except Exception:
        queue.put((rank, traceback.format_exc()))


def _outcome(rank: int, port: int, errand: Errand) -> Outcome:
    from tests.training_core.llm.learning.test_learner import groups
    from training_core.llm.learning.learner import make_learner
    from training_core.llm.learning.optimiser import join
    from training_core.llm.learning.policy_checkpoint import load_policy, save_policy

    torch.set_num_threads(1)
    processes = join(rank, errand.size, "127.0.0.1", port, gpu=False)
    model = make_model().to(DTYPES[errand.precision])
    policy = Policy(learner=errand.settings, devices=Devices(placement="apart"))
    learner = make_learner(policy, errand.algorithm, model, 10, processes=processes)
    if errand.read_from:
        load_policy(errand.read_from, learner)
    metrics, annotations = [], {}
    for iteration in range(errand.first, errand.last + 1):
        result = learner.update(groups(), iteration, 0)
        metrics.append(result.metrics)
        annotations = result.annotations
    if errand.write_to and rank == 0:
        save_policy(errand.write_to, learner, TOKENIZER, 1)
    elif errand.write_to:
        learner.state_dict()  # what is spread is gathered by all
    weights = torch.cat([tensor.float().flatten() for tensor in learner.weights().values()])
    return Outcome(metrics, weights.numpy(), annotations)  # a tensor would die with this process
