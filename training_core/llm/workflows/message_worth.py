"""The worth of a message: the return after it, less the mean return after other answers to the same prompt.

A counterfactual by replay, as C3's credit (arXiv 2603.06859), here for a reader and not for the gradient. At each message of a
game K alternatives are sampled from its prompt, and the game is continued M times after the message and after each different
alternative. Equal answers share their continuations, and the m-th continuations of all answers share their noise: where two
answers lead to the same state, their continuations are the same and their difference is exactly 0.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
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
    RecordedGame,
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
    """What a game is worth: success · discount ^ turns, success, or what the message's role and its team earn."""
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
    """Values of its own continuations; the game's own value if all alternatives are equal to the message."""
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
    """Messages of all games by game, and the price."""

    games: list[list[MessageWorth]]
    tokens: int = 0
    """Sampled tokens."""
    left_out: int = 0
    """Messages that were not begun because of max_tokens."""
    failed: int = 0
    """Messages of which every continuation failed."""


@dataclass(frozen=True)
class _Branch:
    """One different answer to a message."""

    game: RecordedGame
    number: int
    """Index of the game."""
    position: Position
    recorded: Recorded
    count: int
    """How many of the K sampled answers are equal to it."""
    episodes: list[Episode] = field(default_factory=list)
    """Its continuations."""


_Branches = list[_Branch]
"""The message itself, then the alternatives that differ from it."""


def measure(
    games: Sequence[RecordedGame],
    context: RolloutContext,
    settings: WorthSettings,
    report: Report = no_report,
    slots: int = AT_ONCE,
) -> Measured:
    """Measure every message of games of one split, in about `slots` slots of the pool at a time.

    Raises EnvironmentFailure if a game cannot be replayed exactly.
    """
    measured = Measured([[] for _ in games])
    if not games:
        return measured
    messages = _messages(games, context, settings, measured)
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
                measured.games[branches[0].number].append(worth)
        report(start + len(chunk), len(messages))
    return measured


def _messages(
    games: Sequence[RecordedGame], context: RolloutContext, settings: WorthSettings, measured: Measured
) -> list[_Branches]:
    """The messages of the games with their alternatives, each different answer once."""
    alternatives = Alternatives(settings.alternatives)
    whole = [Replay(game.task, game.messages) for game in games]
    replayed = play_replays(whole, games[0].split, context, alternatives)
    measured.tokens += replayed.tokens
    messages = []
    for number, (game, episode) in enumerate(zip(games, replayed.episodes, strict=True)):
        _check_replayed(game, episode)
        for position, recorded in game.messages.items():
            sampled = alternatives.sampled[number, position]
            counts = Counter(answer.text for answer in sampled)
            own = _Branch(game, number, position, recorded, counts.pop(recorded.answer.text, 0))
            first = {answer.text: answer for answer in reversed(sampled)}
            others = [
                _Branch(game, number, position, Recorded(first[text], recorded.prompt_ids), count)
                for text, count in counts.items()
            ]
            if not others:
                own.episodes.append(episode)
            messages.append([own, *others])
    return messages


def _check_replayed(game: RecordedGame, episode: Episode) -> None:
    if episode.failed:
        raise EnvironmentFailure(f"the replay of the episode {game.name} failed: {episode.error}")
    if len(episode.turns) != len(game.messages) or not isclose(
        episode.episode_return, game.episode_return, rel_tol=1e-6, abs_tol=1e-6
    ):
        raise EnvironmentFailure(
            f"the replay of the episode {game.name} earns {episode.episode_return:g}, the recorded one earned "
            f"{game.episode_return:g}, so its messages cannot be compared",
            remedy="Its reward depends on more than the answers: a judge, a time limit, or the other answers of its group",
        )


def _continue(messages: Sequence[_Branches], context: RolloutContext, settings: WorthSettings) -> int:
    """Play the continuations of these messages; one without different alternatives needs none. Returns the sampled tokens."""
    branches = [branch for message in messages if len(message) > 1 for branch in message]
    if not branches:
        return 0
    replays = [
        _replay(branch, context.config, number)
        for branch in branches
        for number in range(settings.continuations)
    ]
    played = play_replays(replays, branches[0].game.split, context)
    episodes = iter(played.episodes)
    for branch in branches:
        own = islice(episodes, settings.continuations)
        branch.episodes.extend(episode for episode in own if not episode.failed)
    return played.tokens


def _replay(branch: _Branch, config: RunConfig, number: int) -> Replay:
    messages = unchanged_messages(branch.game, branch.position, config) | {branch.position: branch.recorded}
    return Replay(branch.game.task, messages, (branch.number, number))


def _worth(branches: _Branches, config: RunConfig, settings: WorthSettings) -> MessageWorth | None:
    """None if every continuation of the message failed."""
    own, *others = branches
    role = own.game.roles[own.position]

    def values(branch: _Branch) -> list[float]:
        return [episode_value(episode, role, config, settings) for episode in branch.episodes]

    if not own.episodes:
        return None
    alternatives = [
        Alternative(branch.recorded.answer.text, branch.count, values(branch), branch.episodes[0])
        for branch in others
        if branch.episodes
    ]
    of_own = values(own)
    result = estimate(of_own, own.count, [(item.count, item.values) for item in alternatives])
    return MessageWorth(
        own.position, role, *result[:2], of_own, result.between, own.count, alternatives, own.episodes[0]
    )


def episode_value(episode: Episode, role: str, config: RunConfig, settings: WorthSettings) -> float:
    """The value of a game for a role.

    "return" is what the role itself earns with its team's reward; other roles' own rewards are not in it, so that in a game
    of opponents each role has its own.
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
    """A role's messages in several games."""

    worth: float
    """Mean over games of the sum of its messages' worths. The alternatives are the policy's own answers, so of sampled games it is 0 on
    average; of greedy games it compares the most likely answers with the sampled ones.
    """
    half_width: float | None
    """Of its 95 % interval; None for one game."""
    influence: float | None
    """Standard deviation of the value between alternatives, over messages that have different ones: how much it matters what the role
    says. None without such messages.
    """


def worth_by_role(games: Iterable[Sequence[MessageWorth]]) -> dict[str, RoleWorth]:
    """The messages of games by role."""
    totals: dict[str, list[float]] = {}
    between: dict[str, list[float]] = {}
    for messages in games:
        own: dict[str, float] = {}
        for message in messages:
            own[message.role] = own.get(message.role, 0.0) + message.worth
            between.setdefault(message.role, []).extend([message.between] if message.alternatives else [])
        for role, total in own.items():
            totals.setdefault(role, []).append(total)
    return {role: _role_worth(values, between[role]) for role, values in totals.items()}


def _role_worth(totals: Sequence[float], between: Sequence[float]) -> RoleWorth:
    half = student_975(len(totals) - 1) * (variance(totals) / len(totals)) ** 0.5 if len(totals) > 1 else None
    influence = max(0.0, fmean(between)) ** 0.5 if between else None
    return RoleWorth(fmean(totals), half, influence)
