"""Whole episodes as candidates: K independent plays of each task, compared by their return.

GRPO (arXiv 2402.03300) for teams: the group is (task, role), and every turn of a role in an episode has the advantage
of the episode. It is the control for AT-GRPO at equal sampling budget, tasks x K answers per turn.
"""

from collections.abc import Sequence

from training_core.llm.generation.base import SamplingSettings, settings_of
from training_core.llm.workflows.context import Table
from training_core.llm.workflows.conversation import conversations
from training_core.llm.workflows.lockstep import Manner, play
from training_core.types import Episode, NoiseKey

EPISODES_STREAM = 2


def play_episodes(tasks: Sequence[int], table: Table) -> list[Episode]:
    """Play training tasks, K = rollout.group_size slots each; siblings share the field `siblings`."""
    config, count = table.config, table.config.rollout.group_size
    slots = [task for task in tasks for _ in range(count)]

    def settings(role: str) -> SamplingSettings:
        return settings_of(config.team.roles[role].sampling)

    def key(slot: int, turn: int, seat: int) -> NoiseKey:
        sibling = slots[slot] * count + slot % count
        return NoiseKey(config.run.seed, EPISODES_STREAM, table.iteration, sibling, turn, seat)

    episodes = play(
        slots,
        table,
        Manner("train", "train", 1, settings, key, lambda candidates, key: 0, conversations(config)),
    )
    for slot, episode in enumerate(episodes):
        episode.siblings = f"{table.iteration}-{slots[slot]}"
    return episodes
