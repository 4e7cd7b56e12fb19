"""Metrics of an iteration or an evaluation, by the names that charts and scripts rely on."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

from training_core.types import Candidate, Episode, Turn
from workers.protocol import Collected, EpisodeFacts, Phase, Span, Updated

NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters of others' names that names of metrics must not contain."""
_PARTS, _PART = 64, 60
"""Different parts of rewards that are reported, and characters of their names."""
GROUP_SHARES = ("zero_variance", "too_easy", "too_hard", "filtered")


def episode_facts(episode: Episode) -> EpisodeFacts:
    """The numbers of one episode."""
    roles = dict.fromkeys(turn.role for turn in episode.turns)
    return EpisodeFacts(
        success=episode.success,
        failed=episode.failed,
        episode_return=episode.episode_return,
        rewards=rewards_by_role(episode),
        candidate_rewards={role: sum(c.reward for c in _candidates(episode, role)) for role in roles},
        candidates={role: sum(1 for _ in _candidates(episode, role)) for role in roles},
        cut=sum(c.answer.stop_reason == "length" for turn in episode.sampled_turns for c in turn.candidates),
        tokens=_tokens(episode.sampled_turns) + episode.continued_tokens,
        turns=len({turn.index for turn in episode.turns}),
        reward_timeouts=episode.reward_timeouts,
        successes=episode.role_success,
        error=episode.error[:500],
        overlong=episode.overlong,
        unscored=episode.unscored,
        unscored_candidates={role: sum(not c.scored for c in _candidates(episode, role)) for role in roles},
        scored=is_scored(episode),
        cut_by_role={
            role: sum(c.answer.stop_reason == "length" for c in _candidates(episode, role)) for role in roles
        },
        reward_parts={
            role: {NOT_IN_NAMES.sub("_", name)[:_PART]: value for name, value in parts.items()}
            for role, parts in episode.reward_parts.items()
        },
        failed_role=episode.failed_role,
        agent_error=episode.agent_error[:500],
        lost_groups=episode.lost_groups,
    )


def is_truncated(episode: Episode) -> bool:
    """Whether an executed answer was cut at its token limit, or a prompt left no room for one."""
    cut = any(executed(turn).answer.stop_reason == "length" for turn in episode.turns)
    return cut or bool(episode.overlong)


def is_scored(episode: Episode) -> bool:
    """Whether every executed candidate has a reward."""
    return all(executed(turn).scored for turn in episode.turns) and not (
        episode.unscored and not episode.turns
    )


def rewards_by_role(episode: Episode) -> dict[str, float]:
    """Sum of the executed candidates' rewards, by role, and the rewards of roles that had not answered."""
    sums = dict(episode.silent_rewards)
    for turn in episode.turns:
        sums[turn.role] = sums.get(turn.role, 0.0) + executed(turn).reward
    return sums


def executed(turn: Turn) -> Candidate:
    """The candidate that was executed."""
    return turn.candidates[turn.executed]


def episode_tokens(episode: Episode) -> int:
    """Response tokens over all candidates."""
    return _tokens(episode.turns)


def train_metrics(collected: Collected) -> dict[str, float]:
    """`train/...` and `rollout/...` of one collection. Failed episodes count only in `rollout/failed`, and those without a
    reward only in `rewards/unscored`.
    """
    played = [facts for facts in collected.facts if facts.scored and not facts.failed]
    values = {
        "train/return": _mean(facts.episode_return for facts in played),
        "train/length": _mean(float(facts.turns) for facts in played),
    } | _success("train", played)
    if collected.env_steps is not None and not played:
        return {}  # no episode ended in this rollout
    for role in _roles(played):
        values[f"train/{role}/reward"] = _mean(facts.rewards.get(role, 0.0) for facts in played)
    if collected.env_steps is not None:
        return values
    values |= _reward_parts("train", played)
    for role in _roles(played):
        values[f"train/{role}/candidate_reward"] = _share(
            sum(facts.candidate_rewards.get(role, 0.0) for facts in played),
            sum(facts.candidates.get(role, 0) - facts.unscored_candidates.get(role, 0) for facts in played),
        )
    return values | _rollout_metrics(collected) | _reward_metrics(collected.facts)


def eval_metrics(prefix: str, facts: Sequence[EpisodeFacts]) -> dict[str, float]:
    """`eval/...` or `eval_sampled/...`. Failed episodes and those without a reward are left out of all of them, and counted."""
    scored = [item for item in facts if item.scored]
    played = [item for item in scored if not item.failed]
    values = {
        f"{prefix}/return": _mean(item.episode_return for item in played),
        f"{prefix}/length": _mean(float(item.turns) for item in played),
        f"{prefix}/failed": float(len(scored) - len(played)),
    } | _success(prefix, played)
    for role in _roles(played):
        values[f"{prefix}/{role}/reward"] = _mean(item.rewards.get(role, 0.0) for item in played)
    values |= _reward_parts(prefix, played)
    return values | _if_any({f"{prefix}/unscored": _unscored(facts), f"{prefix}/overlong": _overlong(facts)})


def update_metrics(updated: Updated) -> dict[str, float]:
    """`policy/<policy>/...`, `groups/<role>/...` and the results of the version check."""
    values = {
        f"policy/{policy}/{name}": value
        for policy, metrics in updated.metrics.items()
        for name, value in metrics.items()
    }
    stale = {"rollout/staleness": updated.staleness, "rollout/dropped": updated.dropped}
    return values | _group_metrics(updated.groups) | {k: float(v) for k, v in stale.items() if v is not None}


def compute_metrics(spans: Iterable[Span]) -> dict[str, float]:
    """`compute/<policy>/<phase>_flops_per_second` while its workers generated or updated, and `..._mfu` (0 to 1) if the
    peak of their devices is known. Spans without FLOPs are left out.
    """
    sums: dict[tuple[str, Phase], list[float]] = {}
    for span in spans:
        if span.flops is not None and span.phase in ("rollout", "update") and span.end > span.start:
            seconds = span.end - span.start
            total = sums.setdefault((span.policy, span.phase), [0.0, 0.0, 0.0])
            total[0] += span.flops
            total[1] += seconds
            total[2] += seconds * (span.peak or nan)
    values: dict[str, float] = {}
    for (policy, phase), (flops, seconds, possible) in sums.items():
        values[f"compute/{policy}/{phase}_flops_per_second"] = flops / seconds
        if not isnan(possible):
            values[f"compute/{policy}/{phase}_mfu"] = flops / possible
    return values


def system_metrics(hosts: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """`system/<host>/...`."""
    return {
        f"system/{host}/{name}": value for host, figures in hosts.items() for name, value in figures.items()
    }


def merge_spans(spans: Iterable[Span], gap: float = 0.02) -> list[Span]:
    """Join spans of the same worker, phase and policy that are less than `gap` seconds apart."""
    merged: list[Span] = []
    last: dict[tuple[str, str, str], int] = {}
    for span in sorted(spans, key=lambda item: item.start):
        key = (span.worker, span.phase, span.policy)
        index = last.get(key)
        if index is not None and span.start - merged[index].end < gap:
            merged[index] = _joined(merged[index], span)
        else:
            last[key] = len(merged)
            merged.append(span)
    return merged


@dataclass
class Progress:
    """Totals of the run: x axes in addition to iterations. Stored in checkpoints."""

    episodes: int = 0
    tokens: int = 0
    env_steps: int = 0

    def add(self, facts: Iterable[EpisodeFacts], env_steps: int | None = None) -> None:
        """Add training episodes. Without `env_steps`, each candidate counts as one step."""
        self.env_steps += env_steps or 0
        for item in facts:
            self.episodes += 1
            self.tokens += item.tokens
            self.env_steps += sum(item.candidates.values())

    def metrics(self) -> dict[str, float]:
        """`progress/...`."""
        return {f"progress/{name}": float(value) for name, value in vars(self).items()}


def _joined(one: Span, other: Span) -> Span:
    """Both spans as one; its FLOPs are None if one of them has none."""
    flops = one.flops + other.flops if one.flops is not None and other.flops is not None else None
    return replace(one, end=max(one.end, other.end), flops=flops)


def _success(prefix: str, facts: Sequence[EpisodeFacts]) -> dict[str, float]:
    """`.../success`, `.../<role>/success` and `.../<role>/<agent>/success`, where the environment defines them."""
    successes = [item.success for item in facts if item.success is not None]
    values = {} if facts and not successes else {f"{prefix}/success": _mean(map(float, successes))}
    for name in sorted({name for item in facts for name in item.successes}):
        own = [float(item.successes[name]) for item in facts if name in item.successes]
        values[f"{prefix}/{name}/success"] = _mean(own)
    return values


def _reward_parts(prefix: str, facts: Sequence[EpisodeFacts]) -> dict[str, float]:
    """`.../<role>/reward/<part>`: mean over the episodes that report the part."""
    named = dict.fromkeys(
        (role, name) for item in facts for role, parts in item.reward_parts.items() for name in parts
    )
    return {
        f"{prefix}/{role}/reward/{name}": _mean(
            parts[name] for item in facts if name in (parts := item.reward_parts.get(role, {}))
        )
        for role, name in list(named)[:_PARTS]
    }


def _group_metrics(groups: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    return {
        f"groups/{role}/{name}": _share(counts.get(name, 0), counts.get("total", 0))
        for role, counts in groups.items()
        for name in GROUP_SHARES
    }


def _reward_metrics(facts: Sequence[EpisodeFacts]) -> dict[str, float]:
    """`rewards/timeouts`, if reward functions were called, and `rewards/unscored`, if they returned None."""
    timeouts = [item.reward_timeouts for item in facts if item.reward_timeouts is not None]
    values = {"rewards/timeouts": float(sum(timeouts))} if timeouts else {}
    return values | _if_any({"rewards/unscored": _unscored(facts)})


def _unscored(facts: Sequence[EpisodeFacts]) -> float:
    """Number of answers for which the reward function returned None."""
    return float(sum(item.unscored for item in facts))


def _overlong(facts: Sequence[EpisodeFacts]) -> float:
    """Number of episodes that ended because a prompt left no room in the model's context."""
    return float(sum(bool(item.overlong) for item in facts))


def _if_any(counts: Mapping[str, float]) -> dict[str, float]:
    """The counts that are not 0: most runs never have one."""
    return {name: count for name, count in counts.items() if count}


def _rollout_metrics(collected: Collected) -> dict[str, float]:
    facts, ahead = collected.facts, collected.ahead
    seconds = ahead.seconds if ahead else collected.seconds
    answers = sum(count for item in facts for count in item.candidates.values())
    values = {
        "rollout/tokens_per_second": _share(sum(item.tokens for item in facts), seconds),
        "rollout/episodes_per_second": _share(len(facts), seconds),
        "rollout/truncated": _share(sum(item.cut for item in facts), answers),
        "rollout/failed": float(sum(item.failed for item in facts)),
    }
    for role in dict.fromkeys(role for item in facts for role in item.candidates):
        cut = sum(item.cut_by_role.get(role, 0) for item in facts)
        values[f"rollout/{role}/truncated"] = _share(cut, sum(item.candidates.get(role, 0) for item in facts))
    erring = [item for item in facts if item.agent_error]
    values |= _if_any({"rollout/overlong": _overlong(facts), "rollout/agent_errors": float(len(erring))})
    values |= _by_role("failed", (item for item in facts if item.failed)) | _by_role("agent_errors", erring)
    values |= _if_any({"rollout/lost_groups": float(sum(item.lost_groups for item in facts))})
    if ahead:
        values |= {"rollout/rejected": float(ahead.rejected), "rollout/waiting": float(ahead.waiting)}
    return values


def _by_role(name: str, facts: Iterable[EpisodeFacts]) -> dict[str, float]:
    """`rollout/<role>/<name>`: number of these episodes by the role whose turn it was, where that is known."""
    counts = Counter(item.failed_role for item in facts if item.failed_role)
    return {f"rollout/{role}/{name}": float(count) for role, count in counts.items()}


def _candidates(episode: Episode, role: str) -> Iterable[Candidate]:
    """Those that were sampled for this episode."""
    return (c for turn in episode.sampled_turns if turn.role == role for c in turn.candidates)


def _tokens(turns: Iterable[Turn]) -> int:
    return sum(len(c.answer.token_ids) for turn in turns for c in turn.candidates)


def _roles(facts: Iterable[EpisodeFacts]) -> list[str]:
    return list(dict.fromkeys(role for item in facts for role in item.rewards))


def _mean(values: Iterable[float]) -> float:
    items = list(values)
    return sum(items) / len(items) if items else nan


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
