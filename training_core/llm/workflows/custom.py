"""A custom workflow: an object by import path that plays tasks."""

from collections.abc import Sequence
from typing import Any, Literal

from training_core.config.rollout import CustomWorkflow
from training_core.errors import EnvironmentFailure
from training_core.importing import made
from training_core.llm.workflows.context import Table
from training_core.llm.workflows.independent import play_independent
from training_core.types import Episode


def play_custom(tasks: Sequence[int], table: Table) -> list[Episode]:
    """The object's episodes of training tasks. Raises EnvironmentFailure for anything but a list of episodes."""
    return _episodes(_object(table)(tasks, table))


def evaluate_custom(
    tasks: Sequence[int], table: Table, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Evaluate with the object's method `evaluate` if it has one, otherwise by independent play in the environment."""
    evaluate = getattr(_object(table), "evaluate", None)
    return (
        play_independent(tasks, table, kind) if evaluate is None else _episodes(evaluate(tasks, table, kind))
    )


def _object(table: Table) -> Any:
    workflow = table.config.workflow
    assert isinstance(workflow, CustomWorkflow)
    return made(workflow.path, workflow.args, "workflow.path")


def _episodes(found: Any) -> list[Episode]:
    if not isinstance(found, list) or not all(isinstance(each, Episode) for each in found):
        raise EnvironmentFailure(
            f"workflow.path: a workflow must return a list of Episode, not {type(found).__name__}"
        )
    return found
