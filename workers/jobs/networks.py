"""Short jobs of small networks. They play in this process, as many environments at once as the run does."""

import time
from pathlib import Path
from typing import Any

from torch import nn

from training_core.config.marl.policies import Recurrent
from training_core.config.marl.run import MarlConfig
from training_core.marl.environments.base import ActionKind, Continuous
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.trainer import check_rollout_length
from workers.actors.marl_worker import MarlWorker
from workers.jobs.context import JobContext
from workers.jobs.figures import KEPT, figures, unused_told
from workers.jobs.seating import seatings
from workers.protocol.records import EpisodeFacts

TRIED = 25
"""Steps of each environment in a dry run's iterations, unless chunks of a memory are longer."""
Networks = JobContext[MarlConfig]


def dry_run(context: Networks) -> dict[str, Any]:
    """Make environments and networks, learn twice from a few steps, and play some episodes with what that gave. Raises ConfigError.

    Result, beside the figures of those episodes: `policies` with agents, shapes and sizes; environment steps per second of the
    second iteration, collection and update together, and how long an iteration of the config, and all of them, would take at
    that pace (`iteration_seconds`, `run_seconds`); `metrics` of that iteration by policy.
    """
    config, short = context.config, _short(context.config)
    context.progress(0.1, "making environments and networks")
    worker = _started(context, short)
    check_rollout_length(config, worker.trainer.spec)
    context.progress(0.3, "collecting and learning")
    worker.collect(1)
    worker.update(1)  # the first round pays for what torch sets up once
    begun = time.perf_counter()
    worker.collect(2)
    metrics = worker.update(2).metrics
    pace = short.rollout.samples / (time.perf_counter() - begun)
    context.progress(0.7, "playing")
    played = _played(context, worker, "eval_sampled", int(context.parameters.get("episodes", 1)))
    seconds = config.rollout.samples / pace
    learners = worker.trainer.learners
    policies = [_described(name, learner) for name, learner in learners.items()]
    worker.close()
    return _figures(played) | {
        "unused": unused_told(config),
        "policies": policies,
        "environment_steps": short.rollout.samples,
        "steps_per_second": pace,
        "iteration_seconds": seconds,
        "run_seconds": seconds * config.run.iterations,
        "metrics": metrics,
    }


def evaluate(context: Networks) -> dict[str, Any]:
    """Episodes by a checkpoint, or by networks that have not learnt where none is given: those of the run's own evaluation."""
    kind = context.parameters.get("kind", "eval")
    worker = _started(context, context.config, context.checkpoint)
    count = int(context.parameters.get("episodes", context.config.evaluation_episodes(kind)))
    context.progress(0.3, f"playing {count} episode{'s' * (count != 1)}")
    played = _played(context, worker, kind, count)
    worker.close()
    return _figures(played) | {"kind": kind}


def match(context: Networks) -> dict[str, Any]:
    """Two checkpoints in the same episodes, in every seating of the policies. Result: as of language models; see plays.match."""
    assert context.checkpoint and context.other
    sides = {"a": context.checkpoint, "b": context.other}
    kind = context.parameters.get("kind", "eval_sampled")
    count = int(context.parameters.get("episodes", 32))
    worker = _started(context, context.config)
    ways = seatings(list(context.config.used_policies))
    lines = []
    for place, seating in enumerate(ways):
        context.progress(0.2 + 0.8 * place / len(ways), f"seating {place + 1} of {len(ways)}")
        worker.trainer.load_actors({policy: sides[side] / policy for policy, side in seating.items()})
        seats = {role: seating[section.policy] for role, section in context.config.team.roles.items()}
        title = ", ".join(f"{role}: {side}" for role, side in seats.items())
        played = _played(context, worker, kind, count, max(1, KEPT // len(ways)), f"{title} · ")
        lines.append({"seats": seats, **_figures(played)})
    worker.close()
    return {"kind": kind, "seatings": lines, "episodes": count}


def _short(config: MarlConfig) -> MarlConfig:
    """The config with iterations of a few steps."""
    chunks = [
        network.chunk_length
        for network in (config.policies[name].network for name in config.used_policies)
        if isinstance(network, Recurrent)
    ]
    steps = min(config.rollout.steps, max([TRIED, *chunks]))
    fresh = "auto" if config.environment.keeps_episodes else "always"
    short = config.rollout.model_copy(update={"steps": steps, "fresh": fresh})
    return config.model_copy(update={"rollout": short})


def _started(context: Networks, config: MarlConfig, checkpoint: Path | None = None) -> MarlWorker:
    """A worker whose evaluations keep as many episodes as a job may. Raises CheckpointError, ConfigError, EnvironmentFailure."""
    evaluation = config.evaluation.model_copy(update={"probes": KEPT})
    worker = MarlWorker(config.model_copy(update={"evaluation": evaluation}))
    worker.start(1, checkpoint)
    return worker


def _played(
    context: Networks, worker: MarlWorker, kind: Any, count: int, kept: int = KEPT, label: str = ""
) -> list[EpisodeFacts]:
    """Play `count` episodes and keep the first `kept` of those that can be kept, under titles that begin with `label`."""
    collected = worker.evaluate(0, kind, count)
    context.folder.keep(
        document | {"title": f"{label}{document['title']}"[:200]} for document in collected.transcripts[:kept]
    )
    return collected.facts


def _figures(facts: list[EpisodeFacts]) -> dict[str, Any]:
    return {name: value for name, value in figures(facts).items() if name != "tokens"}


def _described(name: str, learner: PolicyLearner) -> dict[str, Any]:
    """A policy's roles, shapes, and how many numbers its networks learn."""
    seats = learner.slots
    return {
        "policy": name,
        "roles": list(seats.roles),
        "agents": list(seats.agents),
        "observation": seats.observation_dim,
        "actions": _in_words(seats.actions),
        "actor": _size(learner.actor),
        "critic": _size(learner.critic),
    }


def _in_words(actions: ActionKind) -> str:
    if isinstance(actions, Continuous):
        return f"{len(actions.low)} numbers from {min(actions.low):g} to {max(actions.high):g}"
    return f"{' x '.join(map(str, actions.counts))} choices"


def _size(network: nn.Module) -> int:
    return sum(each.numel() for each in network.parameters())
