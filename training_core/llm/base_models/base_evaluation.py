"""Evaluation of a base model before training: played once when the model is created, stored with it, and read by
every run.

No torch here: the caller passes the engine, and a driver that only reads the metrics stays lightweight.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from training_core.config.models import Policy
from training_core.config.rollout import MultiTurn, RolloutBuffer
from training_core.config.run import Environment, RunConfig
from training_core.config.team import Role, Team
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.environments.registry import make_environment
from training_core.llm.workflows.context import Generate, Render, RolloutContext
from training_core.llm.workflows.episodes import play_independent
from training_core.types import Episode

KINDS: tuple[Literal["eval", "eval_sampled"], ...] = ("eval", "eval_sampled")
_BASE = "base"


def evaluate_base(environment: Environment, generate: Generate, render: Render) -> dict[str, Any]:
    """Let one base model play every role of the held-out tasks, greedily and sampled.

    Returns {"conditions": the conditions of the metrics, "eval": metric -> value, "eval_sampled": metric -> value}.
    """
    config = _plain_config(environment)
    context = RolloutContext(
        config, EnvironmentHost(environment, 0), {_BASE: generate}, {_BASE: render}, attempt=0, iteration=0
    )
    tasks = range(config.evaluation.episodes)
    metrics: dict[str, Any] = {
        kind: evaluation_metrics(kind, play_independent(tasks, context, kind)) for kind in KINDS
    }
    return {"conditions": _conditions(config)} | metrics


def base_evaluation(config: RunConfig, bases: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Metrics of step 0 by prefix ("eval", "eval_sampled"), from the facts of the policies' base models.

    Empty if the metrics were computed under other conditions (another environment, prompts, sampling, reward weights,
    episodes), if the policies start from different models, or if an external generator plays: the run must then
    evaluate itself.
    """
    if isinstance(config.workflow, RolloutBuffer) and config.workflow.evaluation_file:
        return {}
    stored = [facts.get("evaluation") for facts in bases]
    if not stored or any(item != stored[0] for item in stored) or not isinstance(stored[0], Mapping):
        return {}
    if stored[0].get("conditions") != _conditions(config):
        return {}
    return {kind: dict(stored[0][kind]) for kind in KINDS}


def evaluation_metrics(prefix: str, episodes: Sequence[Episode]) -> dict[str, float]:
    """Metrics of an evaluation. A failed episode is excluded from all of them, and counted."""
    played = [episode for episode in episodes if not episode.failed]
    values = {
        f"{prefix}/success": _mean([float(episode.success) for episode in played]),
        f"{prefix}/return": _mean([episode.episode_return for episode in played]),
        f"{prefix}/length": _mean([float(len({turn.index for turn in episode.turns})) for episode in played]),
        f"{prefix}/failed": float(len(episodes) - len(played)),
    }
    roles = (
        name for episode in played for name in (*episode.silent_rewards, *(t.role for t in episode.turns))
    )
    for role in dict.fromkeys(roles):
        values[f"{prefix}/{role}/reward"] = _mean([episode.role_return(role) for episode in played])
    return values


def _plain_config(environment: Environment) -> RunConfig:
    """A run in which one policy plays every role of the environment, everything else at its default."""
    roles = {role: Role(policy=_BASE) for role in make_environment(environment, 0).roles}
    return RunConfig(team=Team(roles=roles), policies={_BASE: Policy()}, environment=environment)


def _conditions(config: RunConfig) -> dict[str, Any]:
    """Everything in a run's config that an evaluation of its base models depends on, as plain data."""
    return {
        "environment": config.environment.model_dump(mode="json"),
        "order": list(config.team.order),
        "parallel": list(config.team.parallel),
        "roles": {
            name: {
                "prompt": role.prompt,
                "examples": list(role.examples),
                "may_pass": role.may_pass,
                "speaks": role.speaks.model_dump(mode="json"),
                "sampling": role.sampling.model_dump(mode="json", exclude={"temperature"}),
            }
            | ({"template": role.chat_template_kwargs} if role.chat_template_kwargs else {})
            for name, role in config.team.roles.items()
        },
        "rewards": [
            config.algorithm.team_weight,
            config.algorithm.local_weight,
            config.algorithm.team_reward_to,
        ],
        "episodes": config.evaluation.episodes,
        "temperature": config.evaluation.temperature,
        "feedback": config.workflow.feedback if isinstance(config.workflow, MultiTurn) else None,
        "precision": sorted({config.policies[name].learner.precision for name in config.used_policies}),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
