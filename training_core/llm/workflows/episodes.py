"""Independent plays: K whole episodes of each training task, compared by their return, and episodes of evaluation.

The first is GRPO (arXiv 2402.03300) for teams: the group is (task, role), and every turn of a role in an episode has the
advantage of the episode. It is the control for AT-GRPO at equal sampling budget, tasks x K answers per turn.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from training_core.config.run import RunConfig
from training_core.llm.generation.base import SamplingSettings, settings_of
from training_core.llm.workflows.context import RolloutContext, make_conversations
from training_core.llm.workflows.lockstep import EpisodeKind, SamplingPlan, play
from training_core.seeding import NoiseStream
from training_core.types import Episode, NoiseKey

EVALUATION_SEED = 0
"""Evaluations do not depend on the run's seed: tasks and noise are the same, so runs can be compared."""


def sampling_settings(config: RunConfig, role: str, kind: EpisodeKind) -> SamplingSettings:
    """Sampling settings of a role in training or in an evaluation."""
    sampling = config.team.roles[role].sampling
    if kind == "train":
        return settings_of(sampling)
    sampled = sampling.eval_temperature or config.evaluation.temperature
    temperature = 1.0 if kind == "eval" else sampled
    return replace(settings_of(sampling), temperature=temperature, greedy=kind == "eval")


def play_independent(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Play held-out tasks, one slot each: "eval" greedily, "eval_sampled" at the role's temperature for it.

    The noise does not depend on the iteration, so only the policy changes between evaluations.
    """
    config = context.config

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        return NoiseKey(EVALUATION_SEED, NoiseStream.EVALUATION, 0, tasks[slot], turn, role_index)

    settings = partial(sampling_settings, config, kind=kind)
    plan = SamplingPlan(kind, "eval", settings, key, conversations=make_conversations(config))
    return play(tasks, context, plan)


def play_episodes(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, K = rollout.group_size slots each; siblings share the field `siblings`."""
    config, count = context.config, context.config.rollout.group_size
    slots = [task for task in tasks for _ in range(count)]

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        sibling = slots[slot] * count + slot % count
        return NoiseKey(config.run.seed, NoiseStream.EPISODES, context.iteration, sibling, turn, role_index)

    settings = partial(sampling_settings, config, kind="train")
    plan = SamplingPlan("train", "train", settings, key, conversations=make_conversations(config))
    episodes = play(slots, context, plan)
    for slot, episode in enumerate(episodes):
        episode.siblings = f"{context.iteration}-{slots[slot]}"
    return episodes
