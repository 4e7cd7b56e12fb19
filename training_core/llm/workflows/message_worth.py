"""The worth of a message: the value of the episode after it, less the mean value after other answers to its prompt.

A counterfactual by replay, as C3's credit (arXiv 2603.06859), here for a reader and not for the gradient. At each message of
an episode K alternatives are sampled from its prompt, and the episode is continued M times after the message and after each different
alternative. Equal answers share their continuations, and the m-th continuations of all answers share their noise: where two
answers lead to the same state, their continuations are the same and their difference is exactly 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import isclose
from statistics import fmean, variance
from typing import Literal, NamedTuple

from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.replay import (
    Alternatives,
    Position,
    Recorded,
    RecordedEpisode,
    Replay,
    play_replays,
    unchanged_messages,
)
from training_core.types import Episode

Outcome = Literal["discounted", "success", "return"]
Report = Callable[[int, int], None]
"""Receives (messages measured, messages)."""
AT_ONCE = 256
"""Replays that are played at a time."""
NORMAL_975 = 1.959964


def no_report(done: int, count: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class WorthSettings:
    """How messages are measured."""

    alternatives: int = 4
    """K: answers sampled per message, at least 2."""
    continuations: int = 2
    """M: continuations per different answer, at least 2."""
    outcome: Outcome = "discounted"
    """The value of an episode: success · discount ^ turns, success, or what the message's role and its team earn."""
    discount: float = 0.8
    max_tokens: int = 0
    """No message is begun after this many sampled tokens; 0: no limit."""


@dataclass(frozen=True)
class Alternative:
    """One different answer to a message's prompt."""

    text: str
    count: int
    """How many of the K sampled answers are equal to it."""
    values: list[float]
    """Values of its continuations."""
    continuation: Episode
    """The first of them."""


@dataclass(frozen=True)
class MessageWorth:
    """What a message was worth."""

    position: Position
    role: str
    worth: float
    half_width: float
    """Of the 95 % interval."""
    values: list[float]
    """Values of its own continuations; that of the episode if all alternatives are equal to the message."""
    between: float
    """Estimated variance of the value between the alternatives, without the noise of the continuations; may be negative."""
    equal: int
    """How many of the K sampled answers are equal to the message."""
    alternatives: list[Alternative]
    continuation: Episode
    """The first of its own."""

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 0."""
        return abs(self.worth) > self.half_width


@dataclass
class Measured:
    """What messages were worth, and the price."""

    messages: list[list[MessageWorth]]
    """By episode."""
    tokens: int = 0
    """Sampled tokens."""
    left_out: int = 0
    """Messages that were not begun because of max_tokens."""
    failed: int = 0
    """Messages of which every continuation failed."""
    refused: dict[int, EnvironmentFailure] = field(default_factory=dict)
    """By index of the episode: why its replay is not exact, so that its messages cannot be measured."""


@dataclass(frozen=True)
class _Branch:
    """One different answer to a message."""

    episode: RecordedEpisode
    number: int
    """Index of the episode."""
    position: Position
    recorded: Recorded
    count: int
    """How many of the K sampled answers are equal to it."""
    continuations: list[Episode] = field(default_factory=list)


_Branches = list[_Branch]
"""The message itself, then the alternatives that differ from it."""


def measure(
    episodes: Sequence[RecordedEpisode],
    context: RolloutContext,
    settings: WorthSettings,
    report: Report = no_report,
    slots: int = AT_ONCE,
) -> Measured:
    """Measure every message of episodes of one split, in about `slots` slots of the pool at a time."""
    measured = Measured([[] for _ in episodes])
    if not episodes:
        return measured
    messages = _messages(episodes, context, settings, measured)
    at_once = max(1, slots // ((settings.alternatives + 1) * settings.continuations))
    for start in range(0, len(messages), at_once):
        if settings.max_tokens and measured.tokens >= settings.max_tokens:
            measured.left_out = len(messages) - start
            break
        chunk = messages[start : start + at_once]
        measured.tokens += _continue(chunk, context, settings)
        for branches in chunk:
            worth = _worth(branches, context.config, settings)
            if worth is None:
                measured.failed += 1
            else:
                measured.messages[branches[0].number].append(worth)
        report(start + len(chunk), len(messages))
    return measured


def _messages(
    episodes: Sequence[RecordedEpisode], context: RolloutContext, settings: WorthSettings, measured: Measured
) -> list[_Branches]:
    """The messages of the episodes with their alternatives, each different answer once."""
    alternatives = Alternatives(settings.alternatives)
    whole = [Replay(episode.task, episode.messages) for episode in episodes]
    replayed = play_replays(whole, episodes[0].split, context, alternatives)
    measured.tokens += replayed.tokens
    messages = []
    for number, (episode, again) in enumerate(zip(episodes, replayed.episodes, strict=True)):
        refusal = replayed.failures.get(number) or _difference(episode, again)
        if refusal is not None:
            measured.refused[number] = refusal
            continue
        for position, recorded in episode.messages.items():
            sampled = alternatives.sampled[number, position]
            counts = Counter(answer.text for answer in sampled)
            own = _Branch(episode, number, position, recorded, counts.pop(recorded.answer.text, 0))
            first = {answer.text: answer for answer in reversed(sampled)}
            others = [
                _Branch(episode, number, position, Recorded(first[text], recorded.prompt_ids), count)
                for text, count in counts.items()
            ]
            if not others:
                own.continuations.append(again)
            messages.append([own, *others])
    return messages


def _difference(recorded: RecordedEpisode, again: Episode) -> EnvironmentFailure | None:
    """Why a replay is not the recorded episode; None if it is."""
    same_return = isclose(again.episode_return, recorded.episode_return, rel_tol=1e-6, abs_tol=1e-6)
    if len(again.turns) == len(recorded.messages) and same_return:
        return None
    return EnvironmentFailure(
        f"the replay of the episode {recorded.name} earns {again.episode_return:g}, the recorded one earned "
        f"{recorded.episode_return:g}",
        remedy="Its reward depends on more than the answers: a judge, a time limit, or the other answers of its group",
    )


def _continue(messages: Sequence[_Branches], context: RolloutContext, settings: WorthSettings) -> int:
    """Play the continuations of these messages; one without different alternatives needs none. Returns the sampled tokens."""
    branches = [branch for message in messages if len(message) > 1 for branch in message]
    if not branches:
        return 0
    numbers = range(settings.continuations)
    replays = [_replay(branch, context.config, number) for branch in branches for number in numbers]
    played = play_replays(replays, branches[0].episode.split, context)
    for index, episode in enumerate(played.episodes):
        if index not in played.failures:
            branches[index // settings.continuations].continuations.append(episode)
    return played.tokens


def _replay(branch: _Branch, config: RunConfig, number: int) -> Replay:
    unchanged = unchanged_messages(branch.episode, branch.position, config)
    messages = unchanged | {branch.position: branch.recorded}
    return Replay(branch.episode.task, messages, (branch.number, number))


def _worth(branches: _Branches, config: RunConfig, settings: WorthSettings) -> MessageWorth | None:
    """None if every continuation of the message failed."""
    own, *others = branches
    role = own.episode.roles[own.position]

    def values(branch: _Branch) -> list[float]:
        return [episode_value(episode, role, config, settings) for episode in branch.continuations]

    if not own.continuations:
        return None
    alternatives = [
        Alternative(branch.recorded.answer.text, branch.count, values(branch), branch.continuations[0])
        for branch in others
        if branch.continuations
    ]
    of_own = values(own)
    result = estimate(of_own, own.count, [(item.count, item.values) for item in alternatives])
    return MessageWorth(
        own.position, role, *result[:2], of_own, result.between, own.count, alternatives, own.continuations[0]
    )


def episode_value(episode: Episode, role: str, config: RunConfig, settings: WorthSettings) -> float:
    """The value of an episode for a role.

    "return" is what the role itself earns with its team's reward; other roles' own rewards are not in it, so that opponents have
    values of their own.
    """
    if settings.outcome == "return":
        value = episode.role_return(role)
        if config.algorithm.team_reward_to == "speaker":
            executed = (turn.candidates[turn.executed] for turn in episode.turns if turn.role != role)
            value += config.algorithm.team_weight * sum(candidate.team_reward for candidate in executed)
        return value
    success = float(episode.role_success.get(role, episode.success))
    turns = episode.turns[-1].index + 1 if episode.turns else 0
    return success if settings.outcome == "success" else success * settings.discount**turns


class Estimate(NamedTuple):
    """What the continuations of a message and of its alternatives say."""

    worth: float
    half_width: float
    """Of the 95 % interval."""
    between: float
    """As of MessageWorth."""


def estimate(own: Sequence[float], equal: int, others: Sequence[tuple[int, Sequence[float]]]) -> Estimate:
    """The worth of a message with its interval.

    `own` are the values of its continuations, `equal` of the K alternatives are equal to it, and `others` are the different
    ones: (how often each was sampled, values of its continuations). The worth is the mean over the K alternatives of mean own
    value - mean value of the alternative; equal ones count as 0. Its variance has the noise of the continuations, pooled over
    all answers, and the choice of the alternatives. Noise that continuations share makes the interval wider than needed.
    """
    samples = equal + sum(count for count, _ in others)
    if not others or samples < 2:
        return Estimate(0.0, 0.0, 0.0)
    groups = [own, *(values for _, values in others)]
    degrees = sum(len(values) - 1 for values in groups)
    squares = sum((len(values) - 1) * variance(values) for values in groups if len(values) > 1)
    noise = squares / degrees if degrees else 0.0
    mean, means = fmean(own), [(count, fmean(values)) for count, values in others]
    worth = sum(count * (mean - other) for count, other in means) / samples
    shares = [count / samples for count, _ in others]
    drawn = variance([mean] * equal + [other for count, other in means for _ in range(count)])
    within = sum(share**2 * noise / len(values) for share, (_, values) in zip(shares, others, strict=True))
    between = drawn - noise / fmean(len(values) for values in groups)
    spread = sum(shares) ** 2 * noise / len(own) + within + max(0.0, between) / samples
    return Estimate(worth, student_975(degrees + samples - 1) * spread**0.5, between)


def student_975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t (Cornish-Fisher expansion; 1 % too small at 3 degrees of freedom)."""
    z = NORMAL_975
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


@dataclass(frozen=True)
class RoleWorth:
    """A role's messages in several episodes."""

    worth: float
    """Mean over episodes of the sum of its messages' worths. The alternatives are the policy's own answers, so of sampled episodes it is 0
    on average; of greedy ones it compares the most likely answers with the sampled ones.
    """
    half_width: float | None
    """Of its 95 % interval; None for one episode."""
    influence: float | None
    """Standard deviation of the value between alternatives, over messages that have different ones: how much it matters what the role
    says. None without such messages.
    """
    influence_high: float | None
    """Upper bound of its 95 % interval; None for one such message."""


def worth_by_role(episodes: Iterable[Sequence[MessageWorth]]) -> dict[str, RoleWorth]:
    """The messages of episodes by role."""
    totals: dict[str, list[float]] = {}
    between: dict[str, list[float]] = {}
    for messages in episodes:
        own: dict[str, float] = {}
        for message in messages:
            own[message.role] = own.get(message.role, 0.0) + message.worth
            between.setdefault(message.role, []).extend([message.between] if message.alternatives else [])
        for role, total in own.items():
            totals.setdefault(role, []).append(total)
    return {role: _role_worth(values, between[role]) for role, values in totals.items()}


def _role_worth(totals: Sequence[float], between: Sequence[float]) -> RoleWorth:
    influence = max(0.0, fmean(between)) ** 0.5 if between else None
    high = max(0.0, fmean(between) + _half_width(between)) ** 0.5 if len(between) > 1 else None
    return RoleWorth(fmean(totals), _half_width(totals) if len(totals) > 1 else None, influence, high)


def _half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of a mean."""
    error: float = (variance(values) / len(values)) ** 0.5
    return student_975(len(values) - 1) * error
