"""Short jobs of language models: evaluations, matches, and the making of base models. Policies generate and are not updated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training_core.config.models import Policy
from training_core.config.run import RunConfig
from training_core.errors import CheckpointError, ConfigError
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool
from training_core.llm.models.adapter_config import WholeModel
from training_core.llm.models.loading import load_tokenizer
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.machine import rollout_gpus
from workers.actors.policy_workers import PolicyWorker
from workers.jobs.context import MAX_EPISODES, JobContext, checkpoint_assignments, figures
from workers.protocol import (
    Address,
    Collected,
    EpisodeFacts,
    PolicyProxy,
    Ready,
    WorkerSpec,
)

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
    evaluation = config.evaluation.model_copy(
        update={"probes": 10**9, "worth": 0}
    )  # every episode gets a transcript
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
            WorkerSpec(policy, policy, config, context.home, rollout_gpus(config, policy), one_process=True),
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


def evaluate(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Play held-out tasks with a checkpoint, or with the base models if none is given. `swapped`: each role plays with another's policy."""
    config = frozen(context.config, context.checkpoint)
    parameters = context.parameters
    if parameters.get("swapped"):
        config = swapped(config)
    first = int(parameters.get("first", 0))
    tasks = range(first, first + int(parameters.get("episodes", config.evaluation.episodes)))
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    collected = evaluated(coordinator, parameters.get("kind", "eval"), tasks, context)
    context.folder.keep(collected.transcripts)
    policies = {role: section.policy for role, section in config.team.roles.items()}
    return figures(collected.facts) | {
        "kind": parameters.get("kind", "eval"),
        "first": first,
        "seats": policies,
    }


def match(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Play the same tasks with two checkpoints, in every assignment of checkpoints to the team's roles.

    Result: one entry of figures per assignment, with the checkpoint ("a" or "b") of each role.
    """
    config = _both(context)
    proxies = proxies_of(context, config)
    count = int(context.parameters.get("episodes", 32))
    kind = context.parameters.get("kind", "eval_sampled")
    assignments = checkpoint_assignments(list(context.config.team.roles))
    lines = []
    for index, assignment in enumerate(assignments):
        coordinator = coordinator_of(context, _assigned(config, assignment), proxies)
        label = f"assignment {index + 1} of {len(assignments)}: "
        collected = evaluated(coordinator, kind, range(count), context, label)
        for document in collected.transcripts[: max(1, MAX_EPISODES // len(assignments))]:
            title = ", ".join(f"{role}: {side}" for role, side in assignment.items())
            context.folder.keep([document | {"title": f"{title} · {document['title']}"[:200]}])
        lines.append({"seats": assignment, **figures(collected.facts)})
    return {"kind": kind, "seatings": lines, "episodes": count}


def _both(context: JobContext[RunConfig]) -> RunConfig:
    """A config with the policies of both checkpoints, and with each role once per checkpoint: a_<role>, b_<role>."""
    config = context.config
    policies: dict[str, Policy] = {}
    assigned: dict[str, str] = {}
    for side, checkpoint in (("a", context.checkpoint), ("b", context.other)):
        loaded = frozen(config, checkpoint)
        policies |= {f"{side}_{name}": section for name, section in loaded.policies.items()}
        assigned |= {role: section.policy for role, section in config.team.roles.items()}
    combined = frozen(config, None).model_copy(update={"policies": policies})
    roles = {
        f"{side}_{role}": combined.team.roles[role].model_copy(update={"policy": f"{side}_{policy}"})
        for side in ("a", "b")
        for role, policy in assigned.items()
    }
    team = combined.team.model_copy(update={"roles": roles})
    return combined.model_copy(update={"team": team})


def _assigned(config: RunConfig, assignment: dict[str, str]) -> RunConfig:
    """The config in which each role plays with the checkpoint that `assignment` names."""
    roles = {role: config.team.roles[f"{side}_{role}"] for role, side in assignment.items()}
    return config.model_copy(update={"team": config.team.model_copy(update={"roles": roles})})


def prepare(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Result: `models`, one entry per base model with name, source and, where Troupe made it, facts about it."""
    config = context.config
    names = list(dict.fromkeys(config.policies[policy].model for policy in config.used_policies))
    models = []
    for index, name in enumerate(names):

        def report(done: float, text: str, index: int = index, name: str = name) -> None:
            context.progress((index + done) / len(names), f"{name}: {text}")

        source = resolve_model(name, config.environment, context.home, report)
        vocabulary = len(load_tokenizer(source))
        models.append({"name": name, "vocabulary": vocabulary} | read_facts(source))
    return {"models": models}
