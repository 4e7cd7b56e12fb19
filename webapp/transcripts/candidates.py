"""Candidates: at each turn K responses are sampled from one state, and one of them is executed; the tree of an episode, a turn's
group, the tokens of a candidate.
"""

from collections.abc import Mapping, Sequence
from math import ceil, isclose, isfinite
from statistics import fmean, stdev
from typing import Any

from django.http import Http404

from webapp.metrics.arrays import spell
from webapp.transcripts.bodies import Piece, turn_get, turns_read
from webapp.transcripts.models import Episode

MOST_TOKENS = 2000
"""Maximum number of tokens of one response of the API."""
LEVELS = 40
"""Number of turns of the tree on one page."""
HEATS = 4
"""Number of colour intensities."""
STRONG = 2.0
"""Advantage with the strongest colour."""
ARRAYS = (
    "tokens", "token_ids", "logprobs", "versions", "ratios", "entropies", "training_logprobs", "mismatch", "masks",
)  # fmt: skip
"""Values of each token of a response."""


def tree_read(episode: Episode, first: int = 1, most: int = LEVELS) -> tuple[list[dict[str, Any]], int]:
    """Return at most `most` turns from number `first` (from 1), and the total number of turns.

    The fields are those of TreeTurn; numbers that are not finite are strings.
    """
    piece = turns_read(episode, first - 1, most)
    return [_level(number, turn) for number, turn in enumerate(piece.turns, first)], piece.count


def _level(number: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    candidates = [
        {
            "reward": candidate["reward"],
            "value": candidate.get("value"),
            "advantage": candidate.get("advantage"),
            "tokens": len(candidate["token_ids"]),
            "equals": first_equal(turn["candidates"], index),
        }
        for index, candidate in enumerate(turn["candidates"])
    ]
    return {
        "number": number,
        "turn": turn["index"] + 1,
        "role": turn["role"],
        "policy": turn["policy"],
        "executed": turn["executed"] if 0 <= turn["executed"] < len(candidates) else None,
        "zero_variance": is_level(candidates),
        "candidates": candidates,
    }


def group_read(episode: Episode, number: int) -> dict[str, Any]:
    """Return one complete group. Raises Http404 if the episode has no such turn (or only its facts are stored).

    The fields are those of EpisodeGroup.
    """
    return group_of(turn_get(episode, number), number)


def group_of(turn: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the group of a turn that is already read, as `group_read`."""
    level = _level(number, turn)
    mean, std = spread(list(map(compared, turn["candidates"])))
    candidates = [
        facts | _candidate(candidate)
        for facts, candidate in zip(level["candidates"], turn["candidates"], strict=True)
    ]
    return level | {
        "messages": turn["messages"],
        "prompt_tokens": len(turn["prompt_ids"]),
        "mean": mean,
        "std": std,
        "candidates": candidates,
    }


def _candidate(candidate: Mapping[str, Any]) -> dict[str, Any]:
    logprobs = [float(logprob) for logprob in candidate["logprobs"]]
    return {
        "text": candidate["text"],
        "local_reward": candidate["local_reward"],
        "team_reward": candidate["team_reward"],
        "logprob": spell(sum(logprobs)) if logprobs else None,
        "stop_reason": candidate["stop_reason"],
        "versions": sorted(set(candidate["versions"])),
    }


def compared(candidate: Mapping[str, Any]) -> float | str | None:
    """Return what a candidate is compared by: its value if it has one, else its reward."""
    reward: float | str | None = candidate["reward"]
    value: float | str | None = candidate.get("value")
    return reward if value is None else value


def first_equal(candidates: Sequence[Mapping[str, Any]], index: int) -> int:
    """Return the index of the first candidate with the same text, reward and value."""
    facts = [(candidate["text"], candidate["reward"], candidate.get("value")) for candidate in candidates]
    return facts.index(facts[index])


def spread(rewards: Sequence[float | str | None]) -> tuple[float | None, float | None]:
    """Return mean and unbiased standard deviation; None if a reward is not finite, or there are too few of them. Candidates without
    a reward are left out.
    """
    values = [float(reward) for reward in rewards if reward is not None]
    if not values or not all(map(isfinite, values)):
        return None, None
    return fmean(values), stdev(values) if len(values) > 1 else None


def is_level(candidates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether several candidates have equal rewards or values (up to rounding, as in the loss), and thus no learning signal."""
    rewards = [float(reward) for reward in map(compared, candidates) if reward is not None]
    if len(rewards) < 2 or not all(map(isfinite, rewards)):
        return False
    return isclose(min(rewards), max(rewards), rel_tol=1e-9) and not any(
        candidate["advantage"] for candidate in candidates
    )


def folded(candidates: Sequence[Mapping[str, Any]], executed: int | None) -> list[dict[str, Any]]:
    """Return one entry for equal candidates, in order: that of the executed one, else of the first, with "numbers": the numbers of
    all of them, from 1. Candidates whose advantages differ stay apart.
    """
    entries: dict[tuple[Any, ...], dict[str, Any]] = {}
    for index, candidate in enumerate(candidates):
        key = (candidate["equals"], str(candidate["advantage"]))
        entry = entries.setdefault(key, {**candidate, "index": index, "numbers": []})
        entry["numbers"].append(index + 1)
        if index == executed:
            entry |= {**candidate, "index": index}
    return list(entries.values())


def lean(candidate: Mapping[str, Any], mean: float | None) -> tuple[str, int]:
    """Return (up, down or even; intensity from 0 to HEATS) of the advantage, or if unknown, of reward - mean."""
    advantage, reward = candidate["advantage"], compared(candidate)
    if advantage is not None:
        value = float(advantage)
    elif reward is not None:
        value = float(reward) - (mean or 0.0)
    else:
        return "even", 0
    if not isfinite(value) or value == 0:
        return "even", 0
    return ("up" if value > 0 else "down"), ceil(min(1.0, abs(value) / STRONG) * HEATS)


def tokens_read(
    episode: Episode, number: int, candidate: int | None = None, first: int = 0, most: int = MOST_TOKENS
) -> dict[str, Any]:
    """Return tokens `first` … (from 0) of a candidate (from 0; None: the executed one) of turn `number` (from 1).

    The fields are those of AnswerTokens, with only the recorded ones of ARRAYS. Raises Http404.
    """
    turn = turn_get(episode, number)
    index = turn["executed"] if candidate is None else candidate
    if not 0 <= index < len(turn["candidates"]):
        raise Http404(f"turn {number} of episode {episode.pk} has {len(turn['candidates'])} candidates")
    return tokens_of(turn, number, index, first, most)


def tokens_of(turn: Mapping[str, Any], number: int, index: int, first: int, most: int) -> dict[str, Any]:
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
