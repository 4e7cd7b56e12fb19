"""How episodes that are played in lockstep end: by their environment, by an error, or early."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from training_core.llm.environments.host import SlotView
from training_core.llm.workflows.context import PromptRequest, RolloutContext, SlotAnswers
from training_core.types import Episode


def close_episode(episode: Episode, view: SlotView, now: float) -> None:
    """Record how an episode ended."""
    episode.outcome, episode.success, episode.final_board = view.outcome, view.success, view.board
    episode.role_success = dict(view.role_success)
    episode.ended = now
    if view.error:
        episode.fail(view.error)


def without_failed(live: list[int], errors: Mapping[int, str], episodes: list[Episode]) -> list[int]:
    """Fail the episodes with errors; return the slots that continue."""
    for slot, error in errors.items():
        episodes[slot].fail(error)
        episodes[slot].ended = time.time()
    return [slot for slot in live if slot not in errors]


def fail_silent(live: list[int], turn: int, episodes: list[Episode]) -> list[int]:
    """Fail the episodes in which no role could speak for a whole turn, because they would never end."""
    silent = {
        slot: f"no role can speak: observe() returned None for every role in turn {turn + 1}"
        for slot in live
        if not episodes[slot].turns or episodes[slot].turns[-1].index != turn
    }
    return without_failed(live, silent, episodes)


def end_overlong(
    live: list[int],
    requests: Sequence[PromptRequest],
    answers: Sequence[Sequence[SlotAnswers]],
    episodes: list[Episode],
    context: RolloutContext,
) -> list[int]:
    """End the episodes in which a prompt left no room for an answer; return the slots that continue."""
    reasons = {
        item.slot: f"a prompt of {len(item.prompt.token_ids)} tokens to {request.role} leaves no room for an answer in the "
        "model's context"
        for request, items in zip(requests, answers, strict=True)
        for item in items
        if item.slot in live and any(answer.had_no_room for answer in item.answers)
    }
    for slot, reason in reasons.items():
        episodes[slot].overlong = reason
    end_early(reasons, episodes, context)
    return [slot for slot in live if slot not in reasons]


def end_early(outcomes: Mapping[int, str], episodes: list[Episode], context: RolloutContext) -> None:
    """End the episodes of these slots although their environments have not ended."""
    for slot, view in context.pool.observe(list(outcomes), "").items() if outcomes else ():
        close_episode(episodes[slot], replace(view, outcome=outcomes[slot]), time.time())
