"""Jobs that play by themselves: dry runs, evaluations, matches."""

from typing import Any

from training_core.config.models import Policy
from training_core.config.run import RunConfig
from workers.jobs.context import JobContext
from workers.jobs.figures import KEPT, figures, unused_told
from workers.jobs.seating import seatings
from workers.jobs.seats import coordinator_of, played, proxies_of, seated, swapped


def dry_run(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Training episodes by the base models, with all their candidates, and what they earned. Nothing is learnt."""
    config = seated(context.config, None)
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
        "unused": unused_told(context.config),
        "seconds": collected.seconds,
        "tokens_per_second": tokens / collected.seconds if collected.seconds else 0.0,
    }


def evaluate(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Held-out tasks by a checkpoint, or by the base models where none is given; with `swapped`, each role by another's policy."""
    config = seated(context.config, context.checkpoint)
    stop_signal = context.parameters
    if stop_signal.get("swapped"):
        config = swapped(config)
    first = int(stop_signal.get("first", 0))
    tasks = range(first, first + int(stop_signal.get("episodes", config.evaluation.episodes)))
    coordinator = coordinator_of(context, config, proxies_of(context, config))
    collected = played(coordinator, stop_signal.get("kind", "eval"), tasks, context)
    context.folder.keep(collected.transcripts)
    seats = {role: section.policy for role, section in config.team.roles.items()}
    return figures(collected.facts) | {
        "kind": stop_signal.get("kind", "eval"),
        "first": first,
        "seats": seats,
    }


def match(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Two checkpoints on the same tasks, in every seating of the team's roles.

    Result: one line of figures per seating, which names the checkpoint ("a" or "b") that plays each role.
    """
    config, sides = _both(context)
    proxies = proxies_of(context, config)
    count = int(context.parameters.get("episodes", 32))
    kind = context.parameters.get("kind", "eval_sampled")
    ways = seatings(list(context.config.team.roles))
    lines = []
    for place, seating in enumerate(ways):
        coordinator = coordinator_of(context, _seat(config, seating, sides), proxies)
        collected = played(coordinator, kind, range(count), context, f"seating {place + 1} of {len(ways)}: ")
        for document in collected.transcripts[: max(1, KEPT // len(ways))]:
            title = ", ".join(f"{role}: {side}" for role, side in seating.items())
            context.folder.keep([document | {"title": f"{title} · {document['title']}"[:200]}])
        lines.append({"seats": seating, **figures(collected.facts)})
    return {"kind": kind, "seatings": lines, "episodes": count}


def _both(context: JobContext[RunConfig]) -> tuple[RunConfig, dict[str, dict[str, str]]]:
    """A config with the policies of both checkpoints, and the policy of each role by side."""
    config = context.config
    policies: dict[str, Policy] = {}
    sides: dict[str, dict[str, str]] = {}
    for side, checkpoint in (("a", context.checkpoint), ("b", context.other)):
        loaded = seated(config, checkpoint)
        policies |= {f"{side}_{name}": section for name, section in loaded.policies.items()}
        sides[side] = {role: f"{side}_{section.policy}" for role, section in config.team.roles.items()}
    frozen = seated(config, None).model_copy(update={"policies": policies})
    every = {
        f"{side}_{role}": frozen.team.roles[role].model_copy(update={"policy": policy})
        for side, names in sides.items()
        for role, policy in names.items()
    }
    roomy = frozen.team.model_copy(update={"roles": every})
    return frozen.model_copy(update={"team": roomy}), sides


def _seat(config: RunConfig, seating: dict[str, str], sides: dict[str, dict[str, str]]) -> RunConfig:
    roles = {role: config.team.roles[f"{side}_{role}"] for role, side in seating.items()}
    return config.model_copy(update={"team": config.team.model_copy(update={"roles": roles})})
