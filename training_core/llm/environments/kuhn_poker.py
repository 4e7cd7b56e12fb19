"""Kuhn poker (1950): two players, three cards, one bet. The smallest poker, solved by hand.

Both players pay one chip and get one card of jack, queen and king. The first one checks or bets a chip. After a bet the other one
calls, by a chip of its own, or folds. After a check the second one checks, or bets and the first one calls or folds. The higher card
wins the chips unless somebody folds. Played well by both, the first player loses 1/18 of a chip per hand.

A player sees its own card and what was played, and is rewarded for the other one's last answer too (StepResult.rewards). An answer
that the rules do not allow loses two chips, the most that a hand can cost: if it cost one, as folding does, a losing player could as
well give it. Demonstrations for the tiny model teach the language, and that the card matters: a quarter of the time a jack checks and
folds and a king bets and calls; otherwise every allowed move is equally likely.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from training_core.config.base import EnvironmentSection
from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import TaskEnvironment, keyed_random

ROLES = ("first", "second")
CARDS = ("jack", "queen", "king")
DEALS = tuple((own, other) for own in CARDS for other in CARDS if own != other)
"""(card of the first player, card of the second one)."""
OPENS, ANSWERS = ("check", "bet"), ("fold", "call")
ENDS = (
    ("check", "check"),
    ("bet", "fold"),
    ("bet", "call"),
    ("check", "bet", "fold"),
    ("check", "bet", "call"),
)
"""Hands that were played to their end."""
MOST_CHIPS = 2.0


class KuhnPoker(EnvironmentSection):
    """Kuhn poker: a zero-sum game of two players with three cards, in which each one sees its own card."""

    roles: ClassVar[tuple[str, ...]] = ROLES
    role_preset: ClassVar[str] = "kuhn_poker"
    type: Literal["kuhn_poker"] = "kuhn_poker"
    """Kuhn poker, a zero-sum game with hidden cards."""

    @property
    def max_turns(self) -> int:
        """Turns of both players in the longest hand."""
        return 2


@dataclass(frozen=True)
class Deal:
    """A task instance: a card for each player."""

    cards: tuple[str, str]


def allowed(played: tuple[str, ...]) -> tuple[str, str]:
    """The moves after these ones."""
    return ANSWERS if played[-1:] == ("bet",) else OPENS


def chips_of_first(cards: tuple[str, str], played: tuple[str, ...]) -> float:
    """What the first player wins in a hand that was played to its end."""
    if played[-1] == "fold":
        return 1.0 if len(played) == 2 else -1.0
    stake = 2.0 if played[-1] == "call" else 1.0
    return stake if CARDS.index(cards[0]) > CARDS.index(cards[1]) else -stake


def observation(card: str, played: tuple[str, ...]) -> str:
    """What a player sees."""
    return " ".join((card, *played))


class KuhnPokerEnvironment(TaskEnvironment[KuhnPoker, Deal]):
    """A hand. It succeeds if both players kept to the rules; a role succeeds if it won chips."""

    roles: ClassVar[tuple[str, ...]] = ROLES

    def draw(self, task: int, split: Split) -> Deal:
        """A random deal, or for evaluations all six in turn: chance is the same in both."""
        return Deal(
            keyed_random(self.seed, 0, task).choice(DEALS) if split == "train" else DEALS[task % len(DEALS)]
        )

    def begin(self, instance: Deal) -> None:
        """Deal the cards."""
        self.instance = instance
        self.played: tuple[str, ...] = ()
        self.won = 0.0
        """Chips of the first player."""

    def observe(self, role: str) -> str | None:
        """The role's card and the moves so far; None if it is not its turn."""
        index = ROLES.index(role)
        return observation(self.instance.cards[index], self.played) if len(self.played) % 2 == index else None

    def act(self, role: str, answer: str) -> StepResult:
        """Make the move that the answer names; another answer loses the hand."""
        words = after_thought(answer).split()
        fair = len(words) == 1 and words[0] in allowed(self.played)
        self.played += (words[0] if fair else "foul",)
        self.done = not fair or self.played in ENDS
        if not self.done:
            return StepResult(0.0, 0.0, False, False, self.played[-1])
        self.success = fair
        lost = -MOST_CHIPS if role == "first" else MOST_CHIPS
        self.won = chips_of_first(self.instance.cards, self.played) if fair else lost
        rewards = {"first": self.won, "second": -self.won}
        return StepResult(0.0, 0.0, True, self.success, self.played[-1], rewards=rewards)

    def board(self) -> dict[str, Any]:
        """Cards and moves, line by line."""
        lines = [
            {"label": role, "text": card, "state": ""}
            for role, card in zip(ROLES, self.instance.cards, strict=True)
        ]
        lines.append({"label": "moves", "text": " ".join(self.played) or "none", "state": ""})
        return {"kind": "lines", "lines": lines}

    @property
    def role_success(self) -> dict[str, bool]:
        """Who won chips."""
        return {"first": self.won > 0, "second": self.won < 0}

    @property
    def title(self) -> str:
        """The cards."""
        return " against ".join(self.instance.cards)

    @property
    def outcome(self) -> str:
        """Who won."""
        if not self.done:
            return "under way"
        return f"{ROLES[self.won < 0]} wins {abs(self.won):g}"


NOISE = 0.05
"""Probability that a demonstrated move is any word."""
SENSE = 0.25
"""Share of demonstrated moves that depend on the card."""
WORDS = (*CARDS, *OPENS, *ANSWERS)
SEEN = {"first": ((), ("check", "bet")), "second": (("check",), ("bet",))}
"""The moves before each turn of a role."""


def demonstrations(config: KuhnPoker, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and allowed move, the players in turn."""
    random: Random = keyed_random(seed, 2)
    while True:
        for role in ROLES:
            played, card = random.choice(SEEN[role]), random.choice(CARDS)
            words = WORDS if random.random() < NOISE else _plausible(card, allowed(played), random)
            yield observation(card, played), random.choice(words)


def _plausible(card: str, moves: tuple[str, str], random: Random) -> tuple[str, ...]:
    by_card = {"jack": moves[:1], "queen": moves, "king": moves[1:]}
    return by_card[card] if random.random() < SENSE else moves


WARM_START = WarmStart(lambda config: WORDS, demonstrations, NOISE)
