"""Events about episodes: bodies of the selected ones, their annotations by the update, and facts of the whole batch of an update."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from training_core.types import Candidate, Episode, Item, Stage, Turn
from workers.telemetry.metrics import episode_tokens, executed, is_truncated, rewards_by_role

AT_ONCE = 200
"""Maximum number of episodes in one event."""
Speller = Callable[[str, Sequence[int]], list[str]]
"""(policy, token ids) -> each token as text."""


class Annotation(Protocol):
    """Values that a learner computed for one group, per answer and token."""

    @property
    def ratios(self) -> list[list[float]]: ...
    @property
    def entropies(self) -> list[list[float]]: ...
    @property
    def training_logprobs(self) -> list[list[float]]: ...
    @property
    def masks(self) -> list[list[int]]: ...


def choose_transcripts(seed: int, iteration: int, episodes: int, count: int) -> set[int]:
    """Indices of the episodes of an iteration that get transcripts: a draw that depends only on seed and iteration."""
    return set(random.Random(f"transcripts-{seed}-{iteration}").sample(range(episodes), min(count, episodes)))


def episode_document(episode: Episode, versions: Mapping[str, int], spell: Speller) -> dict[str, Any]:
    """An episode event's own fields (see workers.telemetry.events.EpisodeEvent)."""
    return {
        "episode": episode.id,
        "iteration": episode.iteration,
        "kind": episode.kind,
        "probe": episode.probe,
        "task": episode.task[:200],
        "task_number": episode.task_number,
        "title": episode.title[:200],
        "outcome": episode.outcome[:200],
        "success": episode.success,
        "failed": episode.failed,
        "error": episode.error or episode.agent_error,
        "truncated": is_truncated(episode),
        "episode_return": episode.episode_return,
        "rewards": rewards_by_role(episode),
        "versions": dict(versions),
        "tokens": episode_tokens(episode),
        "started": episode.started,
        "ended": episode.ended,
        "turns": [_turn_document(turn, spell) for turn in episode.turns],
        "final_board": episode.final_board,
    }


def annotation_document(
    episode: Episode, learnt: Mapping[tuple[str, int], Annotation], stages: Mapping[str, float]
) -> dict[str, Any]:
    """An episode annotation's own fields: advantages of every group, and the learner's values where it has computed them."""
    turns = []
    for position, turn in enumerate(episode.turns):
        if all(candidate.advantage is None for candidate in turn.candidates):
            continue
        document: dict[str, Any] = {
            "turn": position,
            "advantages": [candidate.advantage or 0.0 for candidate in turn.candidates],
        }
        group = learnt.get((episode.id, position))
        if group is not None:
            document |= {
                "ratios": _by_candidate(turn, group.ratios),
                "entropies": _by_candidate(turn, group.entropies),
                "training_logprobs": _by_candidate(turn, group.training_logprobs),
            }
        turns.append(document | _masks(turn, group))
    return {"episode": episode.id, "turns": turns, "stages": dict(stages)}


def _by_candidate(turn: Turn, values: Sequence[list[Item]]) -> list[list[Item]]:
    """Values of a group's answers by candidate of the turn; a candidate without a reward is not in the group and has none."""
    learnt = iter(values)
    return [next(learnt, []) if candidate.scored else [] for candidate in turn.candidates]


def _masks(turn: Turn, group: Annotation | None) -> dict[str, Any]:
    """Masks of the tokens in the loss; empty if all are. Without the learner's values, the turn was not in the update:
    its role is frozen, or its group was left out (all rewards equal, or by the group filter).
    """
    lengths = [len(candidate.answer.token_ids) for candidate in turn.candidates]
    masks = _by_candidate(turn, group.masks if group is not None else [])
    whole = [mask or [0] * length for mask, length in zip(masks, lengths, strict=True)]
    return {} if all(all(mask) for mask in whole) else {"masks": whole}


def _turn_document(turn: Turn, spell: Speller) -> dict[str, Any]:
    return {
        "index": turn.index,
        "role": turn.role,
        "policy": turn.policy,
        "messages": [dict(message) for message in turn.messages],
        "prompt_ids": turn.prompt_ids,
        "candidates": [_candidate_document(candidate, turn.policy, spell) for candidate in turn.candidates],
        "executed": turn.executed,
        "board": turn.board,
    }


def _candidate_document(candidate: Candidate, policy: str, spell: Speller) -> dict[str, Any]:
    answer = candidate.answer
    computed = {"advantage": candidate.advantage, "value": candidate.value}
    messages = {"messages": candidate.messages} if candidate.messages else {}
    return (
        {name: number for name, number in computed.items() if number is not None}
        | messages
        | {
            "text": answer.text,
            "token_ids": answer.token_ids,
            "tokens": spell(policy, answer.token_ids),
            "logprobs": answer.logprobs,
            "versions": answer.versions,
            "stop_reason": answer.stop_reason,
            "local_reward": candidate.local_reward,
            "team_reward": candidate.team_reward,
            "reward": candidate.reward if candidate.scored else None,
        }
    )


def batch_documents(
    episodes: Sequence[Episode],
    versions: Mapping[str, int],
    *,
    iteration: int,
    queued: float,
    consumed: float,
    learnt: float,
) -> Iterator[dict[str, Any]]:
    """Batch events' own fields (see workers.telemetry.events.BatchEvent). `versions` are those before the update."""
    for start in range(0, len(episodes), AT_ONCE):
        chunk = episodes[start : start + AT_ONCE]
        yield {
            "iteration": iteration,
            "consumed": consumed,
            "learnt": learnt,
            "episodes": [_document(episode, versions, queued) for episode in chunk],
        }


def staleness_of(episode: Episode, versions: Mapping[str, int]) -> int | None:
    """Number of publications between the oldest generated token and the update; the maximum over policies."""
    return max(
        (
            versions[stage.policy] - stage.versions[0]
            for stage in episode.stages
            if stage.versions is not None and stage.policy in versions
        ),
        default=None,
    )


def _document(episode: Episode, versions: Mapping[str, int], queued: float) -> dict[str, Any]:
    roles = _roles(episode)
    return {
        "episode": episode.id,
        "title": episode.title[:200],
        "success": episode.success,
        "failed": episode.failed,
        "truncated": is_truncated(episode),
        "episode_return": episode.episode_return,
        "length": sum(role["tokens"] for role in roles.values()),
        "tokens": episode_tokens(episode),
        "turns": len({turn.index for turn in episode.turns}),
        "staleness": staleness_of(episode, versions),
        "queued": min(queued, episode.started),
        "started": episode.started,
        "ended": max(episode.started, episode.ended),
        "stages": [_stage(stage) for stage in episode.stages],
        "roles": roles,
    }


def _stage(stage: Stage) -> dict[str, Any]:
    times = {"kind": stage.kind, "start": stage.start, "end": stage.end}
    if stage.kind == "environment":
        return times
    return times | {"role": stage.role, "policy": stage.policy, "versions": stage.versions}


def _roles(episode: Episode) -> dict[str, dict[str, Any]]:
    """By role: policy, reward, tokens and truncation of its executed answers."""
    rewards = rewards_by_role(episode)
    roles: dict[str, dict[str, Any]] = {}
    for turn in episode.turns:
        answer = executed(turn).answer
        share = roles.setdefault(
            turn.role,
            {"policy": turn.policy, "reward": rewards[turn.role], "tokens": 0, "truncated": False},
        )
        share["tokens"] += len(answer.token_ids)
        share["truncated"] = share["truncated"] or answer.stop_reason == "length"
    return roles
