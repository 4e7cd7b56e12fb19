"""Batch events: facts and times of all episodes of an update, not only of those with transcripts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_core.types import Episode, Stage
from workers.telemetry.metrics import episode_tokens, executed, is_truncated, rewards_by_role

AT_ONCE = 200
"""Maximum number of episodes in one event."""


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
