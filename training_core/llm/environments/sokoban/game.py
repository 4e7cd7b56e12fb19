"""Sokoban for two: the planner sees boxes and goals and names a direction to push; the executor sees the boxes
relative to itself, walks around them and pushes.

Based on the Sokoban of PettingLLMs (arXiv 2510.11062), whose rewards are the defaults here, with the information
split between the roles: the planner does not know the executor's position, the executor does not know the goals. The
planner uses compass words, the executor walks up, down, left and right. Boxes are numbered in reading order of their
initial positions.
"""

from collections.abc import Container
from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.shaping import shaped
from training_core.llm.environments.sokoban.config import Sokoban
from training_core.llm.environments.sokoban.puzzles import (
    MOVES,
    SOKOBAN_TASKS,
    Cell,
    Level,
    moves_left,
    neighbour,
    pushes_left,
)
from training_core.llm.environments.task_environment import TaskEnvironment

COMPASS = {"north": "up", "south": "down", "west": "left", "east": "right"}
"""The planner's words and the moves that they mean."""
STUCK = "stuck"
"""Shown instead of the last move if the following turn had no effect: without it, greedy play repeats itself indefinitely."""


class SokobanEnvironment(TaskEnvironment[Sokoban, Level]):
    """One level. The planner names a push (`east`, or `2 east` for box 2), then the executor moves (`up right right`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def draw(self, task: int, split: Split) -> Level:
        """The instance of a task number."""
        return SOKOBAN_TASKS.instance(self.config, self.seed, task, split)

    def begin(self, level: Level) -> None:
        """Start on a given level."""
        self.level = level
        self._pushes = pushes_left(level)
        self._moves = moves_left(level)
        self.player = level.player
        self.boxes = level.boxes
        self.plan: tuple[str, ...] = ()
        self.last: tuple[str, ...] = ()
        self.lost = False
        self.start_moves = self._moves_left()

    def observe(self, role: str) -> str:
        """Planner: goals and walls relative to each box. Executor: boxes and walls relative to itself, and the plan."""
        if role == "planner":
            return " ; ".join(self._box_seen(number) for number in range(len(self.boxes)))
        boxes = " ; ".join(
            f"box {number} {_way(self.player, box, tuple(MOVES))}" for number, box in enumerate(self.boxes, 1)
        )
        around = " ".join(
            f"{word} {self._what(neighbour(self.player, step))}" for word, step in MOVES.items()
        )
        last, plan = " ".join(self.last) or "none", " ".join(self.plan) or "none"
        return f"{boxes} ; {around} ; last {last} ; plan {plan}"

    def _box_seen(self, number: int) -> str:
        box = self.boxes[number]
        goals = " , ".join(f"goal {_way(box, goal, tuple(COMPASS))}" for goal in self.level.goals)
        sides = " ".join(
            f"{word} {self._what(neighbour(box, MOVES[move]))}" for word, move in COMPASS.items()
        )
        return f"box {number + 1} {goals} ; {sides}"

    def _what(self, cell: Cell) -> str:
        if not self.level.open(cell):
            return "wall"
        return "box" if cell in self.boxes else "free"

    def act(self, role: str, answer: str) -> StepResult:
        """Process a plan, or move."""
        words = after_thought(answer).split()
        return self._plan(words) if role == "planner" else self._move_all(words)

    def _plan(self, words: list[str]) -> StepResult:
        """Score a push by what the planner can know: as if the player were in the required position."""
        self.plan = ()
        push = self._push(words)
        if push is None:
            return StepResult(self.config.blocked_reward, 0.0, False, False, "no plan")
        number, step = push
        target, behind = neighbour(self.boxes[number], step), neighbour(self.boxes[number], step, -1)
        self.plan = tuple(words)
        summary = f"plans {' '.join(words)}"
        if self._what(target) != "free" or not self.level.open(behind):
            return StepResult(self.config.blocked_reward, 0.0, False, False, f"{summary}, which is blocked")
        after = (*self.boxes[:number], target, *self.boxes[number + 1 :])
        local = self._shaped(self._pushes_left(self.boxes), self._pushes_left(after))
        return StepResult(local, 0.0, False, False, summary)

    def _push(self, words: list[str]) -> tuple[int, Cell] | None:
        """Box (from 0) and direction that a plan names; without a number, the first box that is not on a goal."""
        numbers = {str(number + 1): number for number in range(len(self.boxes))}
        *first, word = words or [""]
        if word not in COMPASS or len(first) > 1 or any(number not in numbers for number in first):
            return None
        astray = [number for number, box in enumerate(self.boxes) if box not in self.level.goals]
        return (numbers[first[0]] if first else astray[0]), MOVES[COMPASS[word]]

    def _move_all(self, words: list[str]) -> StepResult:
        self.turns += 1
        before, left, local = self.boxes, self._moves_left(), 0.0
        if not 0 < len(words) <= self.config.moves_per_turn or any(word not in MOVES for word in words):
            local, words = self.config.blocked_reward, []
        taken = []
        for word in words:
            if self._move(word):
                taken.append(word)
                local += self.config.step_reward
            else:
                local += self.config.blocked_reward
            if self._solved():
                break
        self.last = (taken[-1],) if taken else (STUCK,)
        self.plan = ()
        return self._end_of_turn(local + self._shaped(left, self._moves_left()), before, taken)

    def _move(self, word: str) -> bool:
        """Move, and push a box in the way; return whether that was possible."""
        step = MOVES[word]
        target = neighbour(self.player, step)
        if target in self.boxes:
            if self._what(neighbour(target, step)) != "free":
                return False
            self.boxes = tuple(neighbour(box, step) if box == target else box for box in self.boxes)
        elif not self.level.open(target):
            return False
        self.player = target
        return True

    def _end_of_turn(self, local: float, before: tuple[Cell, ...], taken: list[str]) -> StepResult:
        goals = set(self.level.goals)
        came, left = len(set(self.boxes) & goals), len(set(before) & goals)
        team = self.config.on_goal_reward * max(came - left, 0)
        team += self.config.off_goal_reward * max(left - came, 0)
        self.success = self._solved()
        self.lost = any(box not in self._pushes for box in self.boxes)
        self.done = self.success or self.lost or self.turns >= self.config.max_turns
        if self.done:
            team += self.config.win_reward if self.success else self.config.fail_reward
        return StepResult(local, team, self.done, self.success, f"moves {' '.join(taken) or 'nowhere'}")

    @property
    def alive(self) -> Container[Cell]:
        """Cells from which a box can be brought to a goal."""
        return self._pushes

    def _solved(self) -> bool:
        return set(self.boxes) == set(self.level.goals)

    def _shaped(self, left: int, left_after: int) -> float:
        return shaped(-left, -left_after, self.config.shaping, self.config.shaping_discount)

    def _pushes_left(self, boxes: tuple[Cell, ...]) -> int:
        """Remaining pushes, each box separately to the nearest goal; a lost box counts as farther than any other."""
        lost = max(self._pushes.values()) + 1
        return sum(self._pushes.get(box, lost) for box in boxes)

    def _moves_left(self) -> int:
        """Remaining pushes plus the walks between those of the box with the fewest; as at the start if a box is lost."""
        if any(box not in self._pushes for box in self.boxes):
            return self.start_moves
        walks = [
            self._moves[self.player, box] - self._pushes[box]
            for box in self.boxes
            if self._pushes[box] and (self.player, box) in self._moves
        ]
        return self._pushes_left(self.boxes) + min(walks, default=0)

    def board(self) -> dict[str, Any]:
        """The grid with walls, goals, boxes and the player."""
        size = self.level.size
        cells: list[list[Any]] = [
            [row, column, "wall"]
            for row in range(size)
            for column in range(size)
            if not self.level.open((row, column))
        ]
        cells += [[*goal, "goal"] for goal in self.level.goals] + [[*box, "box"] for box in self.boxes]
        return {"kind": "grid", "rows": size, "columns": size, "cells": [*cells, [*self.player, "agent"]]}

    @property
    def title(self) -> str:
        """Size, boxes and pushes."""
        size, boxes, pushes = self.level.size, len(self.boxes), self._pushes_left(self.level.boxes)
        return f"Sokoban {size}×{size}, {boxes} box{'es' * (boxes != 1)}, {pushes} push{'es' * (pushes != 1)}"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return "a box is lost" if self.lost and not self.success else self.in_turns("solved")


def _way(start: Cell, end: Cell, names: tuple[str, ...]) -> str:
    """Distance and direction, with these names for up, down, left and right."""
    up, down, left, right = names
    rows, columns = end[0] - start[0], end[1] - start[1]
    words = [str(abs(rows)), down if rows > 0 else up] if rows else []
    words += [str(abs(columns)), right if columns > 0 else left] if columns else []
    return " ".join(words) or "here"


def sokoban_vocabulary(config: Sokoban) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    numbers = tuple(str(number) for number in range(1, max(config.size - 2, config.boxes + 1)))
    names = ("box", "goal", "here", "free", "wall", "last", "plan", "none", STUCK, ";", ",")
    return (*MOVES, *COMPASS, *numbers, *names)
