"""Evaluators: actors that play held-out tasks with a snapshot of a run's weights, while the run trains.

A snapshot is made by the run's lead actor (`snapshot`), and contains the weights of the trained policies. Policies and environments
are in the evaluator's process. Tasks, noise and weights are those of an evaluation by the lead actor, so its metrics are the same.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import ray

from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.llm.environments.host import EnvironmentHost
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.marl_worker import MarlWorker
from workers.actors.policy_workers import RolloutWorker
from workers.protocol import Collected, EpisodeKind, PolicyProxy, WorkerSpec
from workers.sizing.placement import on_evaluator

Plays = Sequence[tuple[EpisodeKind, int]]
"""Kinds of evaluation, with their number of episodes."""


class PolicyEvaluator(RolloutCoordinator):
    """Evaluates language models."""

    def __init__(self, config: RunConfig, attempt: int, home: Path) -> None:
        config = on_evaluator(config)
        workers = {
            name: RolloutWorker(
                WorkerSpec(
                    f"evaluator-{name}", name, config, home, config.policies[name].devices.rollout_gpus
                )
            )
            for name in config.used_policies
        }
        environments = EnvironmentHost(config.environment, config.run.seed)
        self._workers = workers
        proxies = cast("Mapping[str, PolicyProxy]", workers)  # nothing is updated here
        super().__init__(config, proxies, environments, attempt, side_by_side=False)

    def evaluate_snapshot(self, snapshot: Mapping[str, Any], iteration: int, plays: Plays) -> list[Collected]:
        """Play with the weights of a snapshot. Raises EngineFailure."""
        for policy, (version, weights) in snapshot.items():
            self._workers[policy].load_weights(ray.get(weights), iteration)
            self._versions[policy] = version
        return [self.evaluate(iteration, kind, episodes) for kind, episodes in plays]


class NetworksEvaluator(MarlWorker):
    """Evaluates small networks."""

    name: ClassVar[str] = "evaluator"

    def __init__(self, config: MarlConfig, attempt: int) -> None:
        resources = config.resources.model_copy(update={"gpus": config.evaluation.gpus})
        super().__init__(config.model_copy(update={"resources": resources}), attempt=attempt)

    def evaluate_snapshot(self, snapshot: Mapping[str, Any], iteration: int, plays: Plays) -> list[Collected]:
        """Play with the actors of a snapshot. Raises EnvironmentFailure."""
        for policy, weights in snapshot.items():
            self.trainer.learners[policy].actor.load_state_dict(weights)
        self._version = iteration
        return [self.evaluate(iteration, kind, episodes) for kind, episodes in plays]
