"""The tokens of one response: exact ids, and the recorded values per token."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import Http404

from webapp.metrics.arrays import spell
from webapp.transcripts.bodies import Piece
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import turn_get

MOST = 2000
"""Maximum number of tokens of one response of the API."""
ARRAYS = (
    "tokens",
    "token_ids",
    "logprobs",
    "versions",
    "ratios",
    "entropies",
    "training_logprobs",
    "mismatch",
    "masks",
)


def tokens_read(
    episode: Episode, number: int, candidate: int | None = None, first: int = 0, most: int = MOST
) -> dict[str, Any]:
    """Return tokens `first` … (from 0) of a candidate (from 0; None: the executed one) of turn `number` (from 1).

    {"turn", "candidate", "executed", "count", "from", "advantage": or None, "prompt_ids"} and the recorded arrays over the tokens:
    "tokens" (text), "token_ids", "logprobs" (of the sampling distribution), "versions", "ratios", "entropies"
    (nats), "training_logprobs" (the learner's), "mismatch" (the learner's minus the sampler's, nats), "masks" (1: in the loss).
    Raises Http404.
    """
    turn = turn_get(episode, number)
    index = turn["executed"] if candidate is None else candidate
    if not 0 <= index < len(turn["candidates"]):
        raise Http404(f"turn {number} of episode {episode.pk} has {len(turn['candidates'])} candidates")
    return tokens_of(turn, number, index, first, most)


def tokens_of(
    turn: Mapping[str, Any], number: int, index: int, first: int = 0, most: int = MOST
) -> dict[str, Any]:
    """Return tokens of a candidate of a turn, with the fields of `tokens_read`."""
    answer = turn["candidates"][index]
    recorded = {name: values for name, values in _arrays(answer).items() if values}
    return {
        "turn": number,
        "candidate": index,
        "executed": turn["executed"],
        "count": max(len(answer["tokens"]), len(answer["token_ids"])),
        "from": first,
        "advantage": answer.get("advantage"),
        "prompt_ids": turn["prompt_ids"],
        **{name: values[first : first + most] for name, values in recorded.items()},
    }


def _arrays(answer: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    arrays = {name: answer.get(name) or [] for name in ARRAYS}
    pairs = zip(arrays["training_logprobs"], arrays["logprobs"], strict=False)
    arrays["mismatch"] = [spell(float(learner) - float(sampled)) for learner, sampled in pairs]
    arrays["masks"] = arrays["masks"] or [1] * len(arrays["ratios"])
    return arrays


def boards_read(piece: Piece) -> dict[str, Any]:
    """Return the boards before each turn of a piece, and the final one if it is recorded."""
    return {
        "count": piece.count,
        "boards": [turn.get("board") for turn in piece.turns],
        "final_board": piece.final_board,
    }
