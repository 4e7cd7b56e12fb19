"""Short jobs of small networks. They play in this process, with as many environments at once as the run."""

import time
from pathlib import Path
from typing import Any

from torch import nn

from training_core.config.marl import MarlConfig
from training_core.marl.environments.base import ActionKind, Continuous
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.trainer import check_rollout_length
from workers.actors.marl_worker import MarlWorker
from workers.actors.visible_devices import on_visible_devices
from workers.jobs.assignments import checkpoint_assignments
from workers.jobs.context import JobContext
from workers.jobs.figures import MAX_EPISODES, figures, unused_documents
from workers.protocol.records import EpisodeFacts

DRY_RUN_STEPS = 25
"""Steps of each environment in a dry run's iterations, unless chunks of a recurrent network are longer."""
Networks = JobContext[MarlConfig]


def dry_run(context: Networks) -> dict[str, Any]:
    """Make environments and networks, train for two short iterations, and play some episodes afterwards. Raises ConfigError.

    Result, in addition to the figures of those episodes: `policies` with agents, shapes and sizes; environment steps per second
    of the second iteration, collection and update together; the resulting duration of one iteration of the config and of all
    (`iteration_seconds`, `run_seconds`); `metrics` of that iteration by policy.
    """
    config, short = context.config, _short(context.config)
    context.progress(0.1, "making environments and networks")
    worker = _started(context, short)
    check_rollout_length(config, worker.trainer.spec)
    context.progress(0.3, "collecting and learning")
    worker.collect(1)
    worker.update(1)  # the first iteration includes torch's one-time setup
    begun = time.perf_counter()
    worker.collect(2)
    metrics = worker.update(2).metrics
    steps_per_second = short.rollout.samples / (time.perf_counter() - begun)
    context.progress(0.7, "playing")
    played = _played(context, worker, "eval_sampled", int(context.parameters.get("episodes", 1)))
    seconds = config.rollout.samples / steps_per_second
    learners = worker.trainer.learners
    policies = [_described(name, learner) for name, learner in learners.items()]
    worker.close()
    return _figures(played) | {
        "unused": unused_documents(config),
        "policies": policies,
        "environment_steps": short.rollout.samples,
        "steps_per_second": steps_per_second,
        "iteration_seconds": seconds,
        "run_seconds": seconds * config.run.iterations,
        "metrics": metrics,
    }


def evaluate(context: Networks) -> dict[str, Any]:
    """Play the run's evaluation episodes with a checkpoint, or with untrained networks if none is given."""
    kind = context.parameters.get("kind", "eval")
    worker = _started(context, context.config, context.checkpoint)
    count = int(context.parameters.get("episodes", context.config.evaluation_episodes(kind)))
    context.progress(0.3, f"playing {count} episode{'s' * (count != 1)}")
    played = _played(context, worker, kind, count)
    worker.close()
    return _figures(played) | {"kind": kind}


def match(context: Networks) -> dict[str, Any]:
    """Play the same episodes with two checkpoints, in every assignment of the policies. Result as in rollouts.match."""
    assert context.checkpoint and context.other
    checkpoints = {"a": context.checkpoint, "b": context.other}
    kind = context.parameters.get("kind", "eval_sampled")
    count = int(context.parameters.get("episodes", 32))
    worker = _started(context, context.config)
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
        played = _played(context, worker, kind, count, stored, f"{title} · ")
        lines.append({"seats": roles, **_figures(played)})
    worker.close()
    return {"kind": kind, "seatings": lines, "episodes": count}


def _short(config: MarlConfig) -> MarlConfig:
    """The config with short iterations."""
    chunks = [config.policies[name].network.sequence_length for name in config.used_policies]
    steps = min(config.rollout.steps, max([DRY_RUN_STEPS, *chunks]))
    fresh = "auto" if config.environment.keeps_episodes else "always"
    short = config.rollout.model_copy(update={"steps": steps, "fresh": fresh})
    return config.model_copy(update={"rollout": short})


def _started(context: Networks, config: MarlConfig, checkpoint: Path | None = None) -> MarlWorker:
    """A started worker whose evaluations record up to MAX_EPISODES episodes. Raises CheckpointError, ConfigError, EnvironmentFailure."""
    evaluation = config.evaluation.model_copy(update={"probes": MAX_EPISODES})
    worker = MarlWorker(on_visible_devices(config).model_copy(update={"evaluation": evaluation}))
    worker.start(checkpoint)
    return worker


def _played(
    context: Networks, worker: MarlWorker, kind: Any, count: int, stored: int = MAX_EPISODES, label: str = ""
) -> list[EpisodeFacts]:
    """Play `count` episodes and store the first `stored` of those with transcripts, with `label` before their titles."""
    collected = worker.evaluate(0, kind, count)
    context.folder.keep(
        document | {"title": f"{label}{document['title']}"[:200]}
        for document in collected.transcripts[:stored]
    )
    return collected.facts


def _figures(facts: list[EpisodeFacts]) -> dict[str, Any]:
    return {name: value for name, value in figures(facts).items() if name != "tokens"}


def _described(name: str, learner: PolicyLearner) -> dict[str, Any]:
    """A policy's roles, shapes, and numbers of parameters."""
    slots = learner.slots
    return {
        "policy": name,
        "roles": list(slots.roles),
        "agents": list(slots.agents),
        "observation": slots.observation_dim,
        "actions": _in_words(slots.actions),
        "actor": _size(learner.actor),
        "critic": _size(learner.critic),
    }


def _in_words(actions: ActionKind) -> str:
    if isinstance(actions, Continuous):
        return f"{len(actions.low)} numbers from {min(actions.low):g} to {max(actions.high):g}"
    return f"{' x '.join(map(str, actions.counts))} choices"


def _size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
