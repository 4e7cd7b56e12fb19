"""A custom workflow: an object by import path that plays tasks."""

from collections.abc import Sequence
from typing import Any, Literal

from training_core.config.rollout import CustomWorkflow
from training_core.errors import EnvironmentFailure
from training_core.importing import made
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.independent import play_independent
from training_core.types import Episode


def play_custom(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """The object's episodes of training tasks. Raises EnvironmentFailure for anything but a list of episodes."""
    return _episodes(_object(context)(tasks, context))


def evaluate_custom(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Evaluate with the object's method `evaluate` if it has one, otherwise by independent play in the environment."""
    evaluate = getattr(_object(context), "evaluate", None)
    return (
        play_independent(tasks, context, kind)
        if evaluate is None
        else _episodes(evaluate(tasks, context, kind))
    )


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
