"""Turn-tree play for training: AT-GRPO (arXiv 2510.11062, section 4, algorithm 1).

At each agent's turn K candidates are sampled from the same state, each is executed on a copy of it, and one copy is
continued. Where the public code differs from the paper, this follows the paper: a group never mixes tasks, selection
is among the copies that were stepped, and every agent sees the previous agent's selection.

With `workflow.value` candidates are compared by their estimated returns: each is continued by the current policies, to the end of the
team's turn or of the episode (C3, arXiv 2603.06859).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from training_core.config.rollout import TurnTree
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import sampling_settings
from training_core.llm.workflows.lockstep import SamplingPlan, play
from training_core.llm.workflows.values import estimate_values
from training_core.seeding import NoiseStream, keyed_uniform
from training_core.types import Candidate, Episode, NoiseKey

_CARRY = 1_000_003
"""Separates the draw of the carried candidate from the draws of tokens."""


def play_turn_tree(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, one slot each, with K = rollout.group_size candidates per turn.

    With continuations, K x M slots for each task follow the tasks' slots.
    """
    config, workflow = context.config, context.config.workflow

    def key(slot: int, turn: int, role_index: int) -> NoiseKey:
        return NoiseKey(
            config.run.seed, NoiseStream.TURN_TREE, context.iteration, tasks[slot], turn, role_index
        )

    sampled = isinstance(workflow, TurnTree) and workflow.carry == "sampled"
    choose = choose_sampled if sampled else choose_best
    settings = partial(sampling_settings, config, kind="train")
    plan = SamplingPlan("train", "train", settings, key, config.rollout.group_size, choose)
    if isinstance(workflow, TurnTree) and workflow.value != "immediate":
        evaluate = partial(estimate_values, context=context, workflow=workflow, first_slot=len(tasks))
        plan = replace(plan, evaluate=evaluate)
    return play(tasks, context, plan)


def choose_best(candidates: list[Candidate], key: NoiseKey) -> int:
    """The first candidate with the highest reward; one without a reward only if none has one."""
    return max(range(len(candidates)), key=lambda index: (candidates[index].scored, candidates[index].reward))


def choose_sampled(candidates: list[Candidate], key: NoiseKey) -> int:
    """A random candidate, drawn by key."""
    return int(keyed_uniform(*key, _CARRY) * len(candidates))
