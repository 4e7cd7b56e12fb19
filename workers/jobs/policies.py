"""Policies of short jobs: models from checkpoints or base models that generate and are never updated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import CheckpointError, ConfigError, EngineFailure
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool
from training_core.llm.models.adapter_config import WholeModel
from training_core.types import Group
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.policy_worker import PolicyWorker
from workers.actors.visible_devices import rollout_gpus
from workers.jobs.context import JobContext
from workers.jobs.figures import MAX_EPISODES
from workers.protocol.records import Collected, EpisodeFacts, Span, System
from workers.protocol.spec import Address, PolicyProxy, PolicyUpdate, Ready, WorkerSpec

CHUNK = 16
"""Episodes between two progress reports."""


class LoadedPolicy(PolicyWorker):
    """A policy that is loaded once, even if several coordinators start it."""

    _ready: Ready | None = None

    def start(self, resume_from: Path | None, address: Address | None = None) -> Ready:
        """Load the base model at the first call."""
        if self._ready is None:
            self._ready = super().start(None)
        return self._ready


def frozen(config: RunConfig, checkpoint: Path | None) -> RunConfig:
    """The config with every role frozen, and the weights of trained policies from the checkpoint, if one is given.

    A checkpoint's policy is a Hugging Face folder, which is loaded like any other model (an adapter with its base model).
    Raises CheckpointError.
    """
    trained = config.trained_policies
    policies = dict(config.policies)
    for name in trained if checkpoint else ():
        assert checkpoint is not None
        folder = checkpoint / name
        if not (folder / "config.json").is_file():
            raise CheckpointError(
                f"the checkpoint {checkpoint.name} has no policy {name}; it is of another team"
            )
        policies[name] = policies[name].model_copy(update={"model": str(folder), "adapter": WholeModel()})
    roles = {name: role.model_copy(update={"trained": False}) for name, role in config.team.roles.items()}
    team = config.team.model_copy(update={"roles": roles})
    evaluation = config.evaluation.model_copy(update={"probes": 10**9})  # every episode gets a transcript
    return config.model_copy(update={"policies": policies, "team": team, "evaluation": evaluation})


def swapped(config: RunConfig) -> RunConfig:
    """The config in which each role plays with another role's policy: the policies, in role order, are shifted by one.

    A control that shows whether policies have specialised. Raises ConfigError if all roles share one policy.
    """
    names = config.used_policies
    if len(names) < 2:
        raise ConfigError(
            {"swapped": f"every role is played by the policy {names[0]}; there is none to swap it with"}
        )
    after = dict(zip(names, [*names[1:], names[0]], strict=True))
    roles = {
        name: role.model_copy(update={"policy": after[role.policy]})
        for name, role in config.team.roles.items()
    }
    return config.model_copy(update={"team": config.team.model_copy(update={"roles": roles})})


def proxies_of(context: JobContext[RunConfig], config: RunConfig) -> dict[str, PolicyProxy]:
    """One worker per policy, in this process; a coordinator loads them when it starts."""

    def loading(done: float, text: str) -> None:
        context.progress(0.5 * done, text)

    return {
        policy: LoadedPolicy(
            WorkerSpec(policy, policy, config, context.home, rollout_gpus(config, policy)),
            loading,
        )
        for policy in config.used_policies
    }


def coordinator_of(
    context: JobContext[RunConfig],
    config: RunConfig,
    proxies: Mapping[str, PolicyProxy],
    pool: EnvironmentPool | None = None,
) -> RolloutCoordinator:
    """A started coordinator of these policies. Raises ModelError."""
    pool = pool or EnvironmentHost(config.environment, config.run.seed)
    coordinator = RolloutCoordinator(
        config, {policy: proxies[policy] for policy in config.used_policies}, pool, side_by_side=False
    )
    coordinator.start(None)
    return coordinator


def evaluated(
    coordinator: RolloutCoordinator, kind: Any, tasks: range, context: JobContext[RunConfig], label: str = ""
) -> Collected:
    """Play held-out tasks in chunks and report progress. Returns transcripts of the first MAX_EPISODES episodes."""
    facts: list[EpisodeFacts] = []
    documents: list[dict[str, Any]] = []
    for start in range(0, len(tasks), CHUNK):
        chunk = tasks[start : start + CHUNK]
        collected = coordinator.evaluate(0, kind, len(chunk), first=chunk.start)
        facts.extend(collected.facts)
        documents.extend(collected.transcripts[: max(0, MAX_EPISODES - len(documents))])
        context.progress(0.5 + 0.5 * len(facts) / len(tasks), f"{label}{len(facts)} of {len(tasks)} episodes")
    return Collected(facts, documents)


class InferenceOnly:
    """The methods of a PolicyProxy for training, for a policy that only generates."""

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Raise EngineFailure."""
        raise EngineFailure("this policy only generates and cannot be updated")

    def publish(self, version: int, iteration: int) -> list[Span]:
        return []

    def save(self, folder: Path) -> None:
        """Save nothing."""

    def system(self) -> System:
        return System({})
