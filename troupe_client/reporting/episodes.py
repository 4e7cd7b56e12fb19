"""Build the fields of an episode from chat messages and a reward, or from turns."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def turns_of(messages: Sequence[Message], role: str, policy: str, reward: float) -> list[dict[str, Any]]:
    """Return one turn per message of the assistant, with the messages before it as its prompt. The last turn gets the reward."""
    answers = [n for n, message in enumerate(messages) if message.get("role") == "assistant"]
    return [
        {
            "role": role,
            "policy": policy,
            "messages": messages[:n],
            "response": messages[n].get("content"),
            "reward": reward if n == answers[-1] else 0.0,
        }
        for n in answers
    ]


def turn_fields(index: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of workers.telemetry.events.Turn. Raises ValueError for a turn without an answer."""
    candidates = turn.get("candidates")
    if candidates is None:
        if "response" not in turn:
            raise ValueError(f"turn {index} has neither `response` nor `candidates`")
        candidates = [
            {
                "text": turn["response"],
                **{k: turn[k] for k in _TOKENS if k in turn},
                "reward": turn.get("reward", 0.0),
            }
        ]
    fields = {
        "index": int(turn.get("index", index)),
        "role": str(turn.get("role", "agent")),
        "policy": str(turn.get("policy") or turn.get("role", "agent")),
        "messages": [
            {"role": str(item.get("role", "")), "content": str(item.get("content") or "")}
            for item in turn.get("messages", ())
        ],
        "prompt_ids": list(turn.get("prompt_ids", ())),
        "candidates": [_candidate(item) for item in candidates],
        "executed": int(turn.get("executed", 0)),
    }
    return fields | ({"board": turn["board"]} if turn.get("board") is not None else {})


_TOKENS = ("token_ids", "tokens", "logprobs", "versions", "stop_reason", "advantage")


def _candidate(candidate: Mapping[str, Any] | str) -> dict[str, Any]:
    item = {"text": candidate} if isinstance(candidate, str) else dict(candidate)
    reward = float(item.get("reward", 0.0))
    fields = {
        "text": str(item.get("text") or ""),
        "token_ids": list(item.get("token_ids", ())),
        "tokens": list(item.get("tokens", ())),
        "logprobs": list(item.get("logprobs", ())),
        "versions": list(item.get("versions", ())),
        "stop_reason": item.get("stop_reason", "stop"),
        "local_reward": float(item.get("local_reward", reward)),
        "team_reward": float(item.get("team_reward", 0.0)),
        "reward": reward,
    }
    return fields | ({"advantage": float(item["advantage"])} if item.get("advantage") is not None else {})


def episode_fields(
    name: str, step: int, turns: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Fields of workers.telemetry.events.EpisodeEvent without the envelope. Missing `facts` are computed from the turns.

    Raises TypeError for a field that an episode does not have.
    """
    if unknown := set(facts) - _FACTS:
        raise TypeError(
            f"an episode has no field {', '.join(sorted(unknown))}; its fields are {', '.join(sorted(_FACTS))}"
        )
    logged_turns = [turn_fields(index, turn) for index, turn in enumerate(turns)]
    rewards: dict[str, float] = {}
    for turn in logged_turns:
        executed = turn["candidates"][turn["executed"]]["reward"] if turn["candidates"] else 0.0
        rewards[turn["role"]] = rewards.get(turn["role"], 0.0) + executed
    texts = [candidate for turn in logged_turns for candidate in turn["candidates"]]
    now = time.time()
    computed = {
        "episode": name,
        "iteration": step,
        "kind": "train",
        "probe": False,
        "task": name,
        "title": _title(logged_turns),
        "outcome": "",
        "success": None,
        "truncated": any(
            turn["candidates"][turn["executed"]]["stop_reason"] == "length"
            for turn in logged_turns
            if turn["candidates"]
        ),
        "episode_return": sum(rewards.values()),
        "rewards": rewards,
        "versions": {turn["policy"]: step for turn in logged_turns},
        "tokens": sum(len(item["token_ids"]) for item in texts),
        "started": now,
        "ended": now,
        "turns": logged_turns,
    }
    return computed | {key: value for key, value in facts.items() if value is not None}


_FACTS = {
    *("kind", "probe", "task", "title", "outcome", "success", "failed", "error", "truncated"),
    *("episode_return", "rewards", "versions", "tokens", "started", "ended", "final_board"),
}


def _title(turns: Sequence[Mapping[str, Any]]) -> str:
    """The first words of the user."""
    for turn in turns:
        for message in turn["messages"]:
            if message["role"] == "user":
                return " ".join(message["content"].split())[:80]
    return ""
