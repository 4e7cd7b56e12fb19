"""Short jobs of language models that play episodes: dry runs, evaluations, matches."""

from typing import Any

from training_core.algorithms.registry import make_hooks
from training_core.config.models import Policy
from training_core.config.run import RunConfig
from workers.jobs.assignments import checkpoint_assignments
from workers.jobs.context import JobContext
from workers.jobs.figures import MAX_EPISODES, figures, unused_documents
from workers.jobs.policies import coordinator_of, evaluated, frozen, proxies_of, swapped


def dry_run(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Play training episodes with the base models, with all candidates and rewards. Does not train. Raises ConfigError
    for an algorithm by import path that cannot be loaded.
    """
    make_hooks(context.config.algorithm)
    config = frozen(context.config, None)
    count = int(context.parameters.get("episodes", 1))
    rollout = config.rollout.model_copy(update={"tasks": count})
    reporting = config.reporting.model_copy(update={"episodes_per_iteration": count})
    config = config.model_copy(update={"rollout": rollout, "reporting": reporting})
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    context.progress(0.5, f"playing {count} episode{'s' * (count != 1)}")
    collected = coordinator.collect(1)
    context.folder.keep(collected.transcripts)
    tokens = sum(item.tokens for item in collected.facts)
    return figures(collected.facts) | {
        "unused": unused_documents(context.config),
        "seconds": collected.seconds,
        "tokens_per_second": tokens / collected.seconds if collected.seconds else 0.0,
    }


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
