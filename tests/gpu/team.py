"""A run in this process, without workers: the policies of a config play, are updated and get their new weights.

The same functions as in a run (`python -m workers.run --local`): workflows, groups, learners and engines; the loop
around them is short, because there are no events, checkpoints or other processes.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers import PreTrainedModel

from tests.benchmarks.plan_path_duo import renderer
from tests.gpu.timing import synchronise, timed
from training_core.config.run import RunConfig
from training_core.llm.base_models.base_evaluation import evaluation_metrics
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner, UpdateResult, make_learner
from training_core.llm.learning.training_groups import make_groups
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.registry import WORKFLOWS
from training_core.types import Answer, Episode, Prompt


@dataclass
class PlayedIteration:
    """One iteration's figures."""

    rollout_seconds: float
    update_seconds: float
    publication_seconds: float
    generated_tokens: int
    answers: int
    updates: dict[str, UpdateResult]
    episodes: list[Episode] = field(default_factory=list)


class LocalTeam:
    """Policies of a config, with an engine and a learner each. `separate`: engines have their own copy of the weights."""

    def __init__(
        self,
        config: RunConfig,
        models: Mapping[str, PreTrainedModel],
        tokenizer: Any,
        device: torch.device,
        *,
        separate: bool = False,
    ) -> None:
        self.config, self.device = config, device
        names = config.used_policies
        self.learners: dict[str, Learner] = {
            name: make_learner(config.policies[name], config.algorithm, models[name], config.run.iterations)
            for name in names
        }
        self.engines = {
            name: TorchEngine(copy.deepcopy(models[name]) if separate else models[name], tokenizer)
            for name in names
        }
        self._separate = separate
        self._pool = EnvironmentHost(config.environment, config.run.seed)
        self._render = renderer(tokenizer)
        self._counts = {"tokens": 0, "answers": 0}

    def iterate(self, iteration: int) -> PlayedIteration:
        """Collect, update and publish."""
        self._counts.update(tokens=0, answers=0)
        episodes: list[Episode] = []
        rollout = timed(lambda: episodes.extend(self._play(iteration)), self.device)
        updates: dict[str, UpdateResult] = {}
        update = timed(lambda: updates.update(self._update(episodes, iteration)), self.device)
        publication = timed(lambda: self._publish(iteration), self.device)
        return PlayedIteration(
            rollout, update, publication, self._counts["tokens"], self._counts["answers"], updates, episodes
        )

    def evaluate(self, kind: Literal["eval", "eval_sampled"], iteration: int) -> dict[str, float]:
        """Metrics on the held-out tasks."""
        tasks = range(self.config.evaluation_episodes(kind))
        context = self._context(iteration)
        return evaluation_metrics(kind, WORKFLOWS[self.config.workflow.type].evaluate(tasks, context, kind))

    def _play(self, iteration: int) -> list[Episode]:
        count = self.config.rollout.tasks
        tasks = range((iteration - 1) * count, iteration * count)
        return WORKFLOWS[self.config.workflow.type].train(tasks, self._context(iteration))

    def _context(self, iteration: int) -> RolloutContext:
        generate: dict[str, Callable[..., list[list[Answer]]]] = {
            name: self._counting(engine) for name, engine in self.engines.items()
        }
        return RolloutContext(
            self.config,
            self._pool,
            generate,
            dict.fromkeys(self.engines, self._render),
            attempt=1,
            iteration=iteration,
        )

    def _counting(self, engine: TorchEngine) -> Callable[..., list[list[Answer]]]:
        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            answers = engine.generate(prompts, settings)
            self._counts["answers"] += sum(map(len, answers))
            self._counts["tokens"] += sum(len(answer.token_ids) for group in answers for answer in group)
            return answers

        return generate

    def _update(self, episodes: Sequence[Episode], iteration: int) -> dict[str, UpdateResult]:
        batch = make_groups(episodes, self.config)
        return {
            name: self.learners[name].update(groups, iteration, iteration - 1, set())
            for name, groups in batch.groups.items()
        }

    def _publish(self, iteration: int) -> None:
        for name, engine in self.engines.items():
            if self._separate:
                engine.load_weights(self.learners[name].weights(), iteration)
            else:
                engine.conversations.clear()
                engine.version = iteration
        synchronise(self.device)
