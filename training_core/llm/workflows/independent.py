"""Independent play for evaluation: one answer per turn, no tree, no selection."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from training_core.config.run import RunConfig
from training_core.llm.generation.base import SamplingSettings, settings_of
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.conversation import make_conversations
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

    def settings(role: str) -> SamplingSettings:
        return sampling_settings(config, role, kind)

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        return NoiseKey(EVALUATION_SEED, NoiseStream.EVALUATION, 0, tasks[slot], turn, role_index)

    return play(
        tasks,
        context,
        SamplingPlan(kind, "eval", 1, settings, key, lambda candidates, key: 0, make_conversations(config)),
    )
