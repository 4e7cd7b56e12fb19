"""Who plays: policies from checkpoints or base models that only speak, and never learn."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training_core.config.models import WholeModel
from training_core.config.run import RunConfig
from training_core.errors import CheckpointError, ConfigError, EngineFailure
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool
from training_core.types import Group
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.policy_worker import PolicyWorker
from workers.jobs.context import JobContext
from workers.jobs.figures import KEPT
from workers.protocol.records import Collected, EpisodeFacts, Span, System
from workers.protocol.spec import PolicyProxy, PolicyUpdate, Ready, WorkerSpec

CHUNK = 16
"""Episodes between two words on progress."""


class Kept(PolicyWorker):
    """A policy that is loaded once, however many coordinators start it."""

    _ready: Ready | None = None

    def start(self, resume_from: Path | None) -> Ready:
        """See PolicyProxy."""
        if self._ready is None:
            self._ready = super().start(None)
        return self._ready


def seated(config: RunConfig, checkpoint: Path | None) -> RunConfig:
    """The config with every role frozen, and the weights of trained policies out of the checkpoint, where one is given.

    A checkpoint's policy is a Hugging Face folder: it is loaded as any other model is (an adapter with its base model).
    Raises CheckpointError.
    """
    trained = config.trained_policies
    policies = dict(config.policies)
    for name in trained if checkpoint else ():
        assert checkpoint is not None
        place = checkpoint / name
        if not (place / "config.json").is_file():
            raise CheckpointError(
                f"the checkpoint {checkpoint.name} has no policy {name}; it is of another team"
            )
        policies[name] = policies[name].model_copy(update={"model": str(place), "adapter": WholeModel()})
    roles = {name: role.model_copy(update={"trained": False}) for name, role in config.team.roles.items()}
    team = config.team.model_copy(update={"roles": roles})
    evaluation = config.evaluation.model_copy(update={"probes": 10**9})  # a probe's transcript is kept
    return config.model_copy(update={"policies": policies, "team": team, "evaluation": evaluation})


def swapped(config: RunConfig) -> RunConfig:
    """Every role played by the policy of another: of the roles' policies, in role order, each is moved up by one.

    The control that shows whether policies learnt parts of their own. Raises ConfigError where all roles share one.
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
    """One worker per policy, in this process; they are loaded when a coordinator starts."""

    def loading(done: float, text: str) -> None:
        context.progress(0.5 * done, text)

    return {
        policy: Kept(
            WorkerSpec(policy, policy, config, context.home, config.policies[policy].devices.rollout_gpus),
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
    """A started coordinator over the ports. Raises ModelError."""
    pool = pool or EnvironmentHost(config.environment, config.run.seed)
    coordinator = RolloutCoordinator(
        config, {policy: proxies[policy] for policy in config.used_policies}, pool, side_by_side=False
    )
    coordinator.start(1, None)
    return coordinator


def played(
    coordinator: RolloutCoordinator, kind: Any, tasks: range, context: JobContext[RunConfig], label: str = ""
) -> Collected:
    """Play held-out tasks in chunks, with progress; transcripts of the first KEPT."""
    facts: list[EpisodeFacts] = []
    documents: list[dict[str, Any]] = []
    for start in range(0, len(tasks), CHUNK):
        some = tasks[start : start + CHUNK]
        collected = coordinator.evaluate(0, kind, len(some), first=some.start)
        facts.extend(collected.facts)
        documents.extend(collected.transcripts[: max(0, KEPT - len(documents))])
        context.progress(0.5 + 0.5 * len(facts) / len(tasks), f"{label}{len(facts)} of {len(tasks)} episodes")
    return Collected(facts, documents)


class Voiceless:
    """The parts of a PolicyProxy that somebody who only speaks does not have."""

    def update(self, groups: list[Group], iteration: int, version: int, wanted: set[str]) -> PolicyUpdate:
        """See PolicyProxy. Raises EngineFailure."""
        raise EngineFailure("whoever plays by hand does not learn")

    def publish(self, version: int, iteration: int) -> list[Span]:
        """See PolicyProxy."""
        return []

    def save(self, folder: Path) -> None:
        """See PolicyProxy."""

    def system(self) -> System:
        """See PolicyProxy."""
        return System({})
