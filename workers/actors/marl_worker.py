"""MarlWorker: all policies of a run of small networks, in one process."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any, ClassVar

from training_core.checkpoints import read_state
from training_core.config.marl import MarlConfig
from training_core.marl.environments.base import VectorEnvironment
from training_core.marl.environments.registry import make_environments
from training_core.marl.records import Collection, EpisodeResult, RecordedEpisode
from workers.actors.machine import UtilisationSampler, machine_load, prepare_process
from workers.protocol import (
    Collected,
    EpisodeFacts,
    EpisodeKind,
    Phase,
    Span,
    Started,
    System,
    TrainingBackend,
    Updated,
)
from workers.telemetry.metrics import NOT_IN_NAMES

if TYPE_CHECKING:
    from training_core.marl.trainer import MarlTrainer


class MarlWorker(TrainingBackend):
    """A TrainingBackend for small networks: one process acts and learns with the same weights."""

    name: ClassVar[str] = "trainer"
    """Name of the worker in events."""

    def __init__(
        self,
        config: MarlConfig,
        make: Callable[[Any, int], VectorEnvironment] | None = None,
        attempt: int = 1,
    ) -> None:
        """`make`: (environment section, count) -> environments; None steps them in this process."""
        self._created = time.time()
        prepare_process(config.resources.threads)
        self._config, self._make = config, make or make_environments
        self._attempt = attempt
        self._version = 0
        self._sampler: UtilisationSampler | None = None
        self._trainer: MarlTrainer | None = None

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def start(self, resume_from: Path | None) -> Started:
        """Make environments and networks. Raises CheckpointError, EnvironmentFailure, ConfigError."""
        self._sampler = UtilisationSampler(self.name, self._config.resources.threads, on_gpu=False)
        self._trainer = self._make_trainer()
        if resume_from is not None:
            self._trainer.load(resume_from)
            self._version = int(read_state(resume_from)["iteration"])
        return Started(
            {},
            spans=[
                Span(self.name, "load", policy, 0, self._created, time.time())
                for policy in self._config.used_policies
            ],
        )

    def collect(self, iteration: int) -> Collected:
        """Play one iteration. Only failed training episodes get transcripts, without their steps."""
        collection, start, seconds = self._play(iteration)
        facts = [self._facts(result) for result in collection.episodes]
        figures = {
            "rollout/env_steps_per_second": collection.steps / seconds,
            "rollout/episodes_per_second": len(facts) / seconds,
            "rollout/failed": float(sum(fact.failed for fact in facts)),
        }
        return Collected(
            facts,
            self._failed(collection, iteration, start),
            [self._span("rollout", iteration, start)],
            seconds,
            figures=figures,
            env_steps=collection.steps,
            failures_limited=True,
        )

    def _make_trainer(self) -> "MarlTrainer":
        from training_core.marl.trainer import MarlTrainer  # here: the driver stays free of torch

        return MarlTrainer(self._config, self._make)

    def _play(self, iteration: int) -> tuple[Collection, float, float]:
        """Play one iteration: the episodes, when it began, and the seconds that it took."""
        start = time.time()
        return self.trainer.collect(iteration), start, time.time() - start

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """Small networks do not support it: they collect and update in turn."""
        raise AssertionError("small networks collect and update in turn")

    def update(self, iteration: int) -> Updated:
        start = time.time()
        metrics = self.trainer.update(iteration)
        self._version = iteration
        histograms = self.trainer.distributions() if self._config.reporting.histograms else {}
        return Updated(
            metrics, [], {}, None, None, [self._span("update", iteration, start)], distributions=histograms
        )

    def publish(self, iteration: int) -> list[Span]:
        """Do nothing: the same weights act and learn."""
        return []

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        start = time.time()
        collection = self.trainer.evaluate(
            greedy=kind == "eval", episodes=episodes, recorded=min(self._config.evaluation.probes, episodes)
        )
        facts = [self._facts(result) for result in collection.episodes]
        returns = [fact.episode_return for fact in facts if not fact.failed]
        figures = {f"{kind}/return_std": stdev(returns)} if len(returns) > 1 else {}
        transcripts = self._transcripts(collection, iteration, kind, start)
        spans = [self._span("evaluate", iteration, start)]
        seconds = time.time() - start
        return Collected(facts, transcripts, spans, seconds, figures=figures, env_steps=collection.steps)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """The weights of the actors, by policy and name."""
        learners = self.trainer.learners.items()
        return {
            policy: {name: tensor.cpu() for name, tensor in learner.actor.state_dict().items()}
            for policy, learner in learners
        }

    def save(self, folder: Path) -> None:
        self.trainer.save(folder)

    def system(self) -> System:
        return System(machine_load(), [self._sampler.take()] if self._sampler else [])

    def close(self) -> None:
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
        if self._sampler is not None:
            self._sampler.close()

    @property
    def trainer(self) -> "MarlTrainer":
        """The trainer; available after `start`."""
        assert self._trainer is not None, "start comes first"
        return self._trainer

    def _span(self, phase: Phase, iteration: int, start: float) -> Span:
        return Span(self.name, phase, "", iteration, start, time.time())

    def _facts(self, result: EpisodeResult) -> EpisodeFacts:
        return EpisodeFacts(
            success=self._success(result),
            failed=result.failure is not None,
            episode_return=self._return(result),
            rewards=result.rewards,
            candidate_rewards={},
            candidates={},
            cut=0,
            tokens=0,
            turns=result.length,
            error=result.failure.error[:500] if result.failure else "",
            successes=self._successes(result),
        )

    def _success(self, result: EpisodeResult) -> bool | None:
        """Success of all agents if the environment reports it, else of the role whose return is the run's."""
        if result.success is not None:
            return result.success
        return result.role_success.get(self._config.returned_role)

    def _successes(self, result: EpisodeResult) -> dict[str, bool]:
        """Success by role if there are several, and by agent if a role has several."""
        if not result.agent_success:
            return {}
        successes = dict(result.role_success) if len(self._config.team.roles) > 1 else {}
        for role, own in self.trainer.spec.roles.items():
            if len(own.agents) > 1:
                known = [agent for agent in own.agents if agent in result.agent_success]
                successes |= {
                    f"{role}/{NOT_IN_NAMES.sub('_', agent)}": result.agent_success[agent] for agent in known
                }
        return successes

    def _return(self, result: EpisodeResult) -> float:
        """Return of the first trained role; rewards of adversaries are not added."""
        return result.rewards[self._config.returned_role]

    def _failed(self, collection: Collection, iteration: int, start: float) -> list[dict[str, Any]]:
        """Documents of the first failed episodes, up to reporting.episodes_per_iteration."""
        failed = [
            (index, result) for index, result in enumerate(collection.episodes) if result.failure is not None
        ]
        kind = self._config.environment.type
        return [
            self._document(result, f"{self._attempt}-{iteration}-train-{index}", iteration, "train", start)
            | {"probe": False, "task": kind, "title": f"{kind}, training", "turns": []}
            for index, result in failed[: self._config.reporting.episodes_per_iteration]
        ]

    def _transcripts(
        self, collection: Collection, iteration: int, kind: EpisodeKind, start: float
    ) -> list[dict[str, Any]]:
        """Documents of an evaluation's recorded episodes."""
        environment = self._config.environment.type
        return [
            self._document(
                recording.result,
                f"{self._attempt}-{iteration}-{kind}-{recording.index}",
                iteration,
                kind,
                start,
            )
            | {
                "probe": True,
                "task": f"{environment}-{recording.index}",
                "title": f"{environment}, start {recording.index}",
                "turns": self._turns(recording),
                "final_board": recording.final_board,
            }
            for recording in collection.recordings
        ]

    def _document(
        self, result: EpisodeResult, episode: str, iteration: int, kind: EpisodeKind, start: float
    ) -> dict[str, Any]:
        """An episode event's own fields (see workers.telemetry.events.EpisodeEvent), less its task and turns."""
        return {
            "episode": episode,
            "iteration": iteration,
            "kind": kind,
            "outcome": _outcome(result, self._success(result)),
            "success": self._success(result),
            "failed": result.failure is not None,
            "error": result.failure.error if result.failure else "",
            "truncated": False,
            "episode_return": self._return(result),
            "rewards": result.rewards,
            "versions": dict.fromkeys(self._config.used_policies, self._version),
            "tokens": 0,
            "started": start,
            "ended": time.time(),
        }

    def _turns(self, recording: RecordedEpisode) -> list[dict[str, Any]]:
        """One turn per step and role: its agents' actions, and the sum of their rewards."""
        return [
            {
                "index": step,
                "role": role,
                "policy": self._config.team.roles[role].policy,
                "messages": [],
                "prompt_ids": [],
                "candidates": [_candidate(step_record.actions, step_record.rewards, agents)],
                "executed": 0,
                "board": step_record.board,
            }
            for step, step_record in enumerate(recording.recorded_steps)
            for role, agents in recording.roles.items()
        ]


def _candidate(actions: dict[str, str], rewards: dict[str, float], agents: Sequence[str]) -> dict[str, Any]:
    """A step of a role's agents as a candidate."""
    earned = sum(rewards[agent] for agent in agents)
    return {
        "text": "\n".join(f"{agent}: {actions[agent]} ({rewards[agent]:+z.3f})" for agent in agents),
        "token_ids": [],
        "tokens": [],
        "logprobs": [],
        "versions": [],
        "stop_reason": "stop",
        "local_reward": earned,
        "team_reward": 0.0,
        "reward": earned,
    }


def _outcome(result: EpisodeResult, succeeded: bool | None) -> str:
    if result.failure is not None:
        return f"failed in step {result.length}"
    ended = "" if result.truncated else "ended after "  # the limit of steps is the normal end
    success = "" if succeeded is None else ", with success" if succeeded else ", without success"
    return f"{ended}{result.length} steps{success}"
