"""Training workflows by the `type` of their config; a custom one is an object by import path that plays tasks."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from training_core.config.rollout import CustomWorkflow, Episodes
from training_core.errors import EnvironmentFailure
from training_core.importing import made
from training_core.llm.workflows.agent import play_agents
from training_core.llm.workflows.branches import play_branches
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


def _whole_episodes(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    workflow = context.config.workflow
    branches = isinstance(workflow, Episodes) and workflow.branch == "random"
    return (play_branches if branches else play_episodes)(tasks, context)


def _rollout_workflows(
    tasks: Sequence[int], context: RolloutContext, kind: EpisodeKind = "train"
) -> list[Episode]:
    from training_core.llm.workflows.rollout_workflow import play_rollout_workflows  # imports torch

    return play_rollout_workflows(tasks, context, kind)


class Workflow(NamedTuple):
    """How the tasks of a run are played."""

    train: Callable[[Sequence[int], RolloutContext], list[Episode]]
    """(numbers of training tasks, context) -> episodes."""
    evaluate: Callable[[Sequence[int], RolloutContext, Literal["eval", "eval_sampled"]], list[Episode]]
    """(numbers of held-out tasks, context, kind) -> episodes."""


WORKFLOWS = {
    "turn_tree": Workflow(play_turn_tree, play_independent),
    "episodes": Workflow(_whole_episodes, play_independent),
    "multi_turn": Workflow(play_episodes, play_independent),
    "custom": Workflow(play_custom, evaluate_custom),
    "agent": Workflow(play_agents, play_agents),
    "rollout_workflow": Workflow(_rollout_workflows, _rollout_workflows),
    "rollout_buffer": Workflow(play_rollout_buffer, evaluate_rollout_buffer),
}
