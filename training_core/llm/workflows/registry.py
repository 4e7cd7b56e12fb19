"""Workflows of training by the `type` of their config."""

from collections.abc import Callable, Sequence

from training_core.llm.workflows.episodes import play_episodes
from training_core.llm.workflows.table import Table
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Episode

WORKFLOWS: dict[str, Callable[[Sequence[int], Table], list[Episode]]] = {
    "turn_tree": play_turn_tree,
    "episodes": play_episodes,
}
"""type -> (task numbers, table) -> episodes."""
