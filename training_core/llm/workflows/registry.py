"""Training workflows by the `type` of their config."""

from collections.abc import Callable, Sequence
from typing import Literal

from training_core.llm.workflows.agent import play_agents
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.custom import evaluate_custom, play_custom
from training_core.llm.workflows.episodes import play_episodes
from training_core.llm.workflows.independent import play_independent
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.rollout_buffer import evaluate_rollout_buffer, play_rollout_buffer
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Episode


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
