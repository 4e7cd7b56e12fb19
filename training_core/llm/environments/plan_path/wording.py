"""The text form of plan_path: formatting of observations, and parsing of answers."""

import re
from collections.abc import Mapping, Sequence

from training_core.llm.answers import after_thought

Cell = tuple[int, int]

MOVES: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
COMPASS = {"north": "up", "south": "down", "west": "left", "east": "right"}
"""The planner's words and the moves that they mean."""
IN_COMPASS = {move: word for word, move in COMPASS.items()}
STUCK = "stuck"
"""Shown after the last move if the following turn had no effect: without it, greedy play repeats the same answer in every turn."""
_LETTERS = re.compile(r"[a-z]+")


class Words:
    """The small vocabulary of the tiny model. An answer with an unknown word, or with too many words, is invalid.

    Planner and walkers have separate words, so that neither learns the other's. Moves are the keys of MOVES; a plan consists of keys
    of COMPASS.
    """

    walk: Mapping[str, str] = {move: move for move in MOVES}
    """The words of a walking role, and their moves."""

    def goal(self, down: int, right: int) -> str:
        """The position of the goal, in cells from here: `goal 2 east 1 north`."""
        return f"goal {' '.join(f'{steps} {word}' for steps, word in _axes(down, right)) or 'here'}"

    def sides(self, free: Mapping[str, bool]) -> str:
        """Which of the four sides are free, by move: `up free down wall left free right free`."""
        return " ".join(f"{move} {'free' if open_ else 'wall'}" for move, open_ in free.items())

    def memory(self, last: Sequence[str]) -> str:
        """The last move, followed by STUCK if the following turn had no effect: `last up stuck`."""
        return f"last {spoken(last)}"

    def plan(self, plan: Sequence[str]) -> str:
        """`plan east east north`."""
        return f"plan {spoken(plan)}"

    def report(self, walls: Sequence[str]) -> str:
        """The moves that the scout reported as blocked: `wall up left`."""
        return f"wall {spoken(walls)}"

    def join(self, *parts: str) -> str:
        """Parts separated by semicolons."""
        return " ; ".join(parts)

    def read(self, answer: str, known: Mapping[str, str], most: int) -> tuple[str, ...]:
        """Every word of the answer, if all are known and they are at most `most`; empty if it cannot be parsed."""
        words = tuple(after_thought(answer).split())
        return words if len(words) <= most and all(word in known for word in words) else ()

    def read_report(self, answer: str) -> tuple[str, ...] | None:
        """The moves that a scout reports as blocked, each once, or `none`; None if its answer cannot be parsed."""
        words = after_thought(answer).split()
        directions = [] if words == ["none"] else words
        good = (
            bool(words)
            and len(set(directions)) == len(directions)
            and all(word in MOVES for word in directions)
        )
        return tuple(directions) if good else None


class Sentences:
    """Plain English for pretrained models, with answers read for the compass words in them."""

    walk: Mapping[str, str] = COMPASS

    def goal(self, down: int, right: int) -> str:
        """`The goal is 2 steps east and 1 step north.`"""
        axes = [f"{steps} step{'s' * (steps != 1)} {word}" for steps, word in _axes(down, right)]
        return f"The goal is {' and '.join(axes) or 'here'}."

    def sides(self, free: Mapping[str, bool]) -> str:
        """`Walls: south.`"""
        return self.report([move for move, open_ in free.items() if not open_])

    def memory(self, last: Sequence[str]) -> str:
        """`Last move: north, then stuck.`"""
        if not last:
            return ""
        words = [f"then {STUCK}" if move == STUCK else IN_COMPASS[move] for move in last]
        return f"Last move: {', '.join(words)}."

    def plan(self, plan: Sequence[str]) -> str:
        """`Plan: east east north.`"""
        return f"Plan: {spoken(plan)}."

    def report(self, walls: Sequence[str]) -> str:
        """`Walls: north, west.`"""
        return f"Walls: {', '.join(IN_COMPASS[move] for move in walls) or 'none'}."

    def join(self, *parts: str) -> str:
        """One sentence after the other."""
        return " ".join(part for part in parts if part)

    def read(self, answer: str, known: Mapping[str, str], most: int) -> tuple[str, ...]:
        """The first known words of the answer, with any text between them, ignoring case."""
        words = _LETTERS.findall(after_thought(answer).lower())
        return tuple(word for word in words if word in known)[:most]

    def read_report(self, answer: str) -> tuple[str, ...] | None:
        """Every side that the answer names; none if it contains `none`."""
        words = _LETTERS.findall(after_thought(answer).lower())
        directions = dict.fromkeys(COMPASS[word] for word in words if word in COMPASS)
        return tuple(directions) if directions or "none" in words else None


WORDINGS: dict[str, Words | Sentences] = {"words": Words(), "sentences": Sentences()}
"""By `environment.wording`."""


def spoken(words: Sequence[str]) -> str:
    """Words for display; "none" if there are none."""
    return " ".join(words) or "none"


def _axes(down: int, right: int) -> list[tuple[int, str]]:
    """(cells, compass word) of each axis with a distance to the goal."""
    axes = []
    if right:
        axes.append((abs(right), "east" if right > 0 else "west"))
    if down:
        axes.append((abs(down), "south" if down > 0 else "north"))
    return axes
