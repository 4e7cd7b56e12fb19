"""Training workflows by the `type` of their config; a custom one is an object by import path that plays tasks."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from training_core.config.rollout import CustomWorkflow
from training_core.errors import EnvironmentFailure
from training_core.importing import made
from training_core.llm.workflows.agent import play_agents
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import play_episodes, play_independent
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.rollout_buffer import evaluate_rollout_buffer, play_rollout_buffer
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Episode


def play_custom(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """The object's episodes of training tasks. Raises EnvironmentFailure for anything but a list of episodes."""
    return _episodes(_object(context)(tasks, context))


def evaluate_custom(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Evaluate with the object's method `evaluate` if it has one, otherwise by independent play in the environment."""
    evaluate = getattr(_object(context), "evaluate", None)
    if evaluate is None:
        return play_independent(tasks, context, kind)
    return _episodes(evaluate(tasks, context, kind))


def _object(context: RolloutContext) -> Any:
    workflow = context.config.workflow
    assert isinstance(workflow, CustomWorkflow)
    return made(workflow.path, workflow.args, "workflow.path")


def _episodes(result: Any) -> list[Episode]:
    if not isinstance(result, list) or not all(isinstance(item, Episode) for item in result):
        raise EnvironmentFailure(
            f"workflow.path: a workflow must return a list of Episode, not {type(result).__name__}"
        )
    return result


def _rollout_workflows(
    tasks: Sequence[int], context: RolloutContext, kind: EpisodeKind = "train"
) -> list[Episode]:
    from training_core.llm.workflows.rollout_workflow import play_rollout_workflows  # imports torch

    return play_rollout_workflows(tasks, context, kind)


WORKFLOWS: dict[str, Callable[[Sequence[int], RolloutContext], list[Episode]]] = {
    "turn_tree": play_turn_tree,
    "episodes": play_episodes,
    "multi_turn": play_episodes,
    "custom": play_custom,
    "agent": play_agents,
    "rollout_workflow": _rollout_workflows,
    "rollout_buffer": play_rollout_buffer,
}
"""type -> (task numbers, context) -> episodes."""

EVALUATIONS: dict[
    str, Callable[[Sequence[int], RolloutContext, Literal["eval", "eval_sampled"]], list[Episode]]
] = {
    "turn_tree": play_independent,
    "episodes": play_independent,
    "multi_turn": play_independent,
    "custom": evaluate_custom,
    "agent": play_agents,
    "rollout_workflow": _rollout_workflows,
    "rollout_buffer": evaluate_rollout_buffer,
}
"""type -> (held-out task numbers, context, kind) -> episodes."""
