"""Dry runs: short jobs that play a config's episodes before its launch, where its run would run. Language models do not train; small
networks train for two short iterations.
"""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from training_core.algorithms.registry import make_hooks
from training_core.config.effects import questionable_settings
from training_core.config.kinds import AnyConfig
from training_core.config.marl import MarlConfig
from training_core.config.rollout import WHOLE_EPISODES, TurnTree
from training_core.config.run import RunConfig
from training_core.marl.environments.base import ActionKind, Continuous
from workers.jobs.context import JobContext, figures
from workers.jobs.language_models import coordinator_of, frozen, proxies_of
from workers.protocol import Collected

if TYPE_CHECKING:
    from torch import nn

    from training_core.marl.learning.learner import PolicyLearner

DRY_RUN_STEPS = 25
"""Steps of each environment in a dry run's iterations, unless chunks of a recurrent network are longer."""


def language_models(context: JobContext[RunConfig]) -> dict[str, Any]:
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
        "unused": unused_documents(context.config) + unpaid_roles(context.config, collected),
        "seconds": collected.seconds,
        "tokens_per_second": tokens / collected.seconds if collected.seconds else 0.0,
    }


def networks(context: JobContext[MarlConfig]) -> dict[str, Any]:
    """Make environments and networks, train for two short iterations, and play some episodes afterwards. Raises ConfigError.

    Result, in addition to the figures of those episodes: `policies` with agents, shapes and sizes; environment steps per second
    of the second iteration, collection and update together; the resulting duration of one iteration of the config and of all
    (`iteration_seconds`, `run_seconds`); `metrics` of that iteration by policy.
    """
    from training_core.marl.trainer import check_rollout_length  # imports torch
    from workers.jobs import networks as jobs

    config, short = context.config, _short(context.config)
    context.progress(0.1, "making environments and networks")
    worker = jobs.started(context, short)
    check_rollout_length(config, worker.trainer.spec)
    context.progress(0.3, "collecting and learning")
    worker.collect(1)
    worker.update(1)  # the first iteration includes torch's one-time setup
    begun = time.perf_counter()
    worker.collect(2)
    metrics = worker.update(2).metrics
    steps_per_second = short.rollout.samples / (time.perf_counter() - begun)
    context.progress(0.7, "playing")
    played = jobs.play(context, worker, "eval_sampled", int(context.parameters.get("episodes", 1)))
    seconds = config.rollout.samples / steps_per_second
    learners = worker.trainer.learners
    policies = [_described(name, learner) for name, learner in learners.items()]
    worker.close()
    return jobs.network_figures(played) | {
        "unused": unused_documents(config),
        "policies": policies,
        "environment_steps": short.rollout.samples,
        "steps_per_second": steps_per_second,
        "iteration_seconds": seconds,
        "run_seconds": seconds * config.run.iterations,
        "metrics": metrics,
    }


def _short(config: MarlConfig) -> MarlConfig:
    """The config with short iterations."""
    chunks = [config.policies[name].network.sequence_length for name in config.used_policies]
    steps = min(config.rollout.steps, max([DRY_RUN_STEPS, *chunks]))
    fresh = "auto" if config.environment.keeps_episodes else "always"
    short = config.rollout.model_copy(update={"steps": steps, "fresh": fresh})
    return config.model_copy(update={"rollout": short})


def unused_documents(config: AnyConfig) -> list[dict[str, str]]:
    """Settings without effect, as documents for a dry run's result."""
    return [{"path": setting.path, "why": setting.why} for setting in questionable_settings(config)]


def unpaid_roles(config: RunConfig, collected: Collected) -> list[dict[str, str]]:
    """Trained roles whose answers differ and always earn the same, while those of another role do not, as such documents."""
    if isinstance(config.workflow, TurnTree):
        differs = {role: _differing_groups(role, collected.transcripts) for role in config.team.roles}
        unpaid = [role for role, groups in differs.items() if groups and not any(groups)]
        paid = [role for role, groups in differs.items() if any(groups)]
    elif isinstance(config.workflow, WHOLE_EPISODES):
        returns = {
            role: {facts.rewards.get(role, 0.0) for facts in collected.facts} for role in config.team.roles
        }
        unpaid = [role for role, values in returns.items() if len(values) == 1]
        paid = [role for role in returns if role not in unpaid]
    else:
        return []
    why = (
        'the role is never paid: whatever it answered in these episodes, it earned the same, unlike {}. Set workflow.value = "turn", or '
        'workflow.type = "episodes" with algorithm.team_reward_to = "team", or reward its answers'
    )
    return [
        {"path": f"team.roles.{role}", "why": why.format(" and ".join(paid))}
        for role in unpaid
        if paid and config.team.roles[role].trained
    ]


def _differing_groups(role: str, transcripts: Iterable[Mapping[str, Any]]) -> list[bool]:
    """Whether rewards or values differ, of each of a role's groups with different answers."""
    groups = [
        turn["candidates"] for document in transcripts for turn in document["turns"] if turn["role"] == role
    ]
    return [
        len({candidate.get("value", candidate["reward"]) for candidate in group}) > 1
        for group in groups
        if len({candidate["text"] for candidate in group}) > 1
    ]


def _described(name: str, learner: "PolicyLearner") -> dict[str, Any]:
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


def _size(network: "nn.Module") -> int:
    return sum(parameter.numel() for parameter in network.parameters())
