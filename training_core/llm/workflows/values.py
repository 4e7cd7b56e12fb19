"""Values of a turn's candidates: their rewards, and the mean of what their role earns in continuations by the current policies.

Equal answers to a state lead to the same state, so they share their continuations and have one value.
"""

import logging
import time
from collections.abc import Collection, Sequence
from itertools import chain

from training_core.config.rollout import TurnTree
from training_core.llm.environments.host import Source
from training_core.llm.workflows.context import RolloutContext, SlotTurn, record_environment
from training_core.llm.workflows.continuation import Start, continue_states, next_point
from training_core.llm.workflows.lockstep import Episodes, Tried
from training_core.types import NOT_SAMPLED, Candidate, Episode, Stage

log = logging.getLogger(__name__)


def estimate_values(
    tried: Tried, episodes: Episodes, *, context: RolloutContext, workflow: TurnTree, first_slot: int
) -> set[int]:
    """Set the values of the scored candidates. The pool's slots from `first_slot` on are used, K x M for each slot.

    Returns the slots whose candidates cannot be compared: new weights arrived while they were continued, or all continuations of an
    answer failed.
    """
    for candidate in chain.from_iterable(tried.candidates.values()):
        candidate.value = candidate.reward if candidate.scored else None
    end = workflow.turns_ahead and tried.point.turn + workflow.turns_ahead
    if end and next_point(tried.point, context.config).turn >= end and not tried.waiting:
        return set()
    began = time.time()
    answers = [
        (item, indices)
        for item in tried.turn.items
        for indices in _equal_answers(item, tried.candidates[item.slot], context)
    ]
    played = continue_states(
        [_start(item, indices[0]) for item, indices in answers],
        tried.point,
        context,
        count=workflow.continuations,
        first_slot=first_slot,
        turns=workflow.turns_ahead,
        waiting=tried.waiting,
    )
    by_slot: dict[int, list[Episode]] = {item.slot: [] for item in tried.turn.items}
    lost = set()
    for (item, indices), continuations in zip(answers, played, strict=True):
        by_slot[item.slot] += continuations
        if not _add_mean(tried, item.slot, indices, continuations):
            lost.add(item.slot)
    lost |= {slot for slot, continuations in by_slot.items() if _straddle(continuations)}
    for item in tried.turn.items:
        _record(episodes[item.slot], tried, item, by_slot[item.slot], began, context)
        episodes[item.slot].lost_groups += item.slot in lost
    return lost


def _start(item: SlotTurn, index: int) -> Start:
    key = item.prompt.key
    return Start(Source(item.slot, index), (key.task, key.turn, key.role, index))


def _equal_answers(
    item: SlotTurn, candidates: Sequence[Candidate], context: RolloutContext
) -> Collection[list[int]]:
    """Indices of the scored candidates, by the text that the environment gets."""
    reads_tokens = context.config.environment.reads_tokens
    equal: dict[object, list[int]] = {}
    for index, (answer, candidate) in enumerate(zip(item.answers, candidates, strict=True)):
        if candidate.scored:
            text = (answer.text, tuple(answer.token_ids)) if reads_tokens else answer.text
            equal.setdefault(text, []).append(index)
    return equal.values()


def _add_mean(tried: Tried, slot: int, indices: Sequence[int], continuations: Sequence[Episode]) -> bool:
    """Add the mean of the role's returns to the values of equal answers. False if every continuation failed."""
    returns = [episode.role_return(tried.turn.role) for episode in continuations if not episode.failed]
    failed = next((episode.error for episode in continuations if episode.failed), "")
    if failed:
        log.warning("a continuation of an answer of %s failed: %s", tried.turn.role, failed)
    for index in indices if returns else ():
        candidate = tried.candidates[slot][index]
        candidate.value = candidate.reward + sum(returns) / len(returns)
    return bool(returns)


def _straddle(continuations: Sequence[Episode]) -> bool:
    """Whether weights of a policy were replaced while the answers of one state were continued."""
    versions: dict[str, set[int]] = {}
    for turn in (turn for episode in continuations for turn in episode.turns):
        for candidate in turn.candidates:
            versions.setdefault(turn.policy, set()).update(candidate.answer.versions)
    return any(len(numbers - {NOT_SAMPLED}) > 1 for numbers in versions.values())


def _record(
    episode: Episode,
    tried: Tried,
    item: SlotTurn,
    continuations: Sequence[Episode],
    began: float,
    context: RolloutContext,
) -> None:
    """Record the time and the tokens of a slot's continuations."""
    record_environment(episode, item.answered, began)
    role = tried.turn.role
    start = max(began, episode.stages[-1].end)
    episode.stages.append(
        Stage("generate", start, max(start, time.time()), role, context.config.team.roles[role].policy)
    )
    turns = (turn for episode in continuations for turn in episode.turns)
    episode.continued_tokens += sum(
        len(candidate.answer.token_ids) for turn in turns for candidate in turn.candidates
    )
