"""Short jobs of small networks. They play in this process, with as many environments at once as the run."""

from pathlib import Path
from typing import Any

from training_core.config.marl import MarlConfig
from workers.actors.machine import on_visible_devices
from workers.actors.marl_worker import MarlWorker
from workers.jobs.context import MAX_EPISODES, JobContext, checkpoint_assignments, figures
from workers.protocol import EpisodeFacts

Networks = JobContext[MarlConfig]


def evaluate(context: Networks) -> dict[str, Any]:
    """Play the run's evaluation episodes with a checkpoint, or with untrained networks if none is given."""
    kind = context.parameters.get("kind", "eval")
    worker = started(context, context.config, context.checkpoint)
    count = int(context.parameters.get("episodes", context.config.evaluation_episodes(kind)))
    context.progress(0.3, f"playing {count} episode{'s' * (count != 1)}")
    played = play(context, worker, kind, count)
    worker.close()
    return network_figures(played) | {"kind": kind}


def match(context: Networks) -> dict[str, Any]:
    """Play the same episodes with two checkpoints, in every assignment of the policies. Result as in rollouts.match."""
    assert context.checkpoint and context.other
    checkpoints = {"a": context.checkpoint, "b": context.other}
    kind = context.parameters.get("kind", "eval_sampled")
    count = int(context.parameters.get("episodes", 32))
    worker = started(context, context.config)
    assignments = checkpoint_assignments(list(context.config.used_policies))
    lines = []
    for index, assignment in enumerate(assignments):
        context.progress(
            0.2 + 0.8 * index / len(assignments), f"assignment {index + 1} of {len(assignments)}"
        )
        worker.trainer.load_actors(
            {policy: checkpoints[side] / policy for policy, side in assignment.items()}
        )
        roles = {role: assignment[section.policy] for role, section in context.config.team.roles.items()}
        title = ", ".join(f"{role}: {side}" for role, side in roles.items())
        stored = max(1, MAX_EPISODES // len(assignments))
        played = play(context, worker, kind, count, stored, f"{title} · ")
        lines.append({"seats": roles, **network_figures(played)})
    worker.close()
    return {"kind": kind, "seatings": lines, "episodes": count}


def started(context: Networks, config: MarlConfig, checkpoint: Path | None = None) -> MarlWorker:
    """A started worker whose evaluations record up to MAX_EPISODES episodes. Raises CheckpointError, ConfigError, EnvironmentFailure."""
    evaluation = config.evaluation.model_copy(update={"probes": MAX_EPISODES})
    worker = MarlWorker(on_visible_devices(config).model_copy(update={"evaluation": evaluation}))
    worker.start(checkpoint)
    return worker


def play(
    context: Networks, worker: MarlWorker, kind: Any, count: int, stored: int = MAX_EPISODES, label: str = ""
) -> list[EpisodeFacts]:
    """Play `count` episodes and store the first `stored` of those with transcripts, with `label` before their titles."""
    collected = worker.evaluate(0, kind, count)
    context.folder.keep(
        document | {"title": f"{label}{document['title']}"[:200]}
        for document in collected.transcripts[:stored]
    )
    return collected.facts


def network_figures(facts: list[EpisodeFacts]) -> dict[str, Any]:
    return {name: value for name, value in figures(facts).items() if name != "tokens"}
