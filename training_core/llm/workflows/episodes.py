"""Whole episodes as candidates: K independent plays of each task, compared by their return.

GRPO (arXiv 2402.03300) for teams: the group is (task, role), and every turn of a role in an episode has the advantage
of the episode. It is the control for AT-GRPO at equal sampling budget, tasks x K answers per turn.
"""

from collections.abc import Sequence

from training_core.llm.generation.base import SamplingSettings, settings_of
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.conversation import make_conversations
from training_core.llm.workflows.lockstep import SamplingPlan, play
from training_core.seeding import NoiseStream
from training_core.types import Episode, NoiseKey


def play_episodes(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, K = rollout.group_size slots each; siblings share the field `siblings`."""
    config, count = context.config, context.config.rollout.group_size
    slots = [task for task in tasks for _ in range(count)]

    def settings(role: str) -> SamplingSettings:
        return settings_of(config.team.roles[role].sampling)

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        sibling = slots[slot] * count + slot % count
        return NoiseKey(config.run.seed, NoiseStream.EPISODES, context.iteration, sibling, turn, role_index)

    episodes = play(
        slots,
        context,
        SamplingPlan(
            "train", "train", 1, settings, key, lambda candidates, key: 0, make_conversations(config)
        ),
    )
    for slot, episode in enumerate(episodes):
        episode.siblings = f"{context.iteration}-{slots[slot]}"
    return episodes
