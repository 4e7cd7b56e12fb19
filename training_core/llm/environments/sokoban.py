"""Sokoban for two: the planner sees boxes and goals and names a direction to push; the executor sees the boxes
relative to itself, walks around them and pushes.

Based on the Sokoban of PettingLLMs (arXiv 2510.11062), whose rewards are the defaults here, with the information
split between the roles: the planner does not know the executor's position, the executor does not know the goals. The
planner uses compass words, the executor walks up, down, left and right. Boxes are numbered in reading order of their
initial positions.

Levels are solvable by construction. A cell is (row, column), rows downwards; the border is wall.

Demonstrations for the tiny model teach the language and part of the task. The planner names an axis of the goal, sometimes
in the wrong direction. The executor walks around the box and pushes it along the axis of the plan, sometimes in the wrong
direction. Some words are also replaced at random. Avoiding walls, and relying on the other role, is learnt in the run.
"""

from collections import deque
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import (
    PuzzleRewards,
    TaskEnvironment,
    Tasks,
    held_out,
    keyed_random,
    shaped,
)


class SokobanGrid(PuzzleRewards):
    """Settings of the levels, independent of the roles."""

    task_fields: ClassVar[tuple[str, ...]] = ("size", "boxes", "wall_share")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "moves_per_turn")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward", "blocked_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = (
        "on_goal_reward",
        "off_goal_reward",
        "win_reward",
        "fail_reward",
    )
    type: str
    """Which role observes what, and which role moves."""
    size: int = Field(6, ge=5, le=12)
    """Rows and columns of the grid, in cells, its border of walls included."""
    boxes: int = Field(1, ge=1, le=6)
    """Number of boxes and of goals."""
    wall_share: float = Field(0.06, ge=0.0, le=0.3)
    """Share of the cells inside the border that are walls; every level can be solved."""
    moves_per_turn: int = Field(6, ge=1, le=32)
    """Maximum number of moves of the executor in one turn, in cells."""
    blocked_reward: float = -0.10
    """Local reward for a blocked move or push, or for an invalid answer."""
    on_goal_reward: float = 1.0
    """Team reward when a box is moved onto a goal."""
    off_goal_reward: float = -0.5
    """Team reward when a box is moved off a goal."""
    win_reward: float = 10.0
    """Team reward when all boxes are on goals."""
    fail_reward: float = -5.0
    """Team reward when the turns run out, or a box can no longer reach any goal."""
    shaping: float = Field(0.1, ge=0.0)
    """Weight of the potential-based shaping on the remaining moves, and for a plan on the remaining pushes (local reward); 0 disables."""

    @cross_field
    def _there_is_room(self) -> Self:
        inside = (self.size - 2) ** 2
        room = round((1 - self.wall_share) * inside) // 4
        if self.boxes > room:
            raise ValueError(f"boxes: at most {room} on a grid of {self.size} with this share of walls")
        return self


class Sokoban(SokobanGrid):
    """Sokoban: the planner, which sees boxes and goals, names a direction to push; the executor walks around the box and pushes."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["sokoban"] = "sokoban"
    """Boxes to be pushed onto goals."""


class SokobanSingle(SokobanGrid):
    """The same levels for one agent that sees boxes, goals and walls, and moves (single-agent control)."""

    roles: ClassVar[tuple[str, ...]] = ("player",)
    type: Literal["sokoban_single"] = "sokoban_single"
    """Boxes to be pushed onto goals by a single agent."""


Cell = tuple[int, int]

MOVES: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@dataclass(frozen=True)
class Level:
    """A task instance. All cells are sorted."""

    size: int
    walls: tuple[Cell, ...]
    """Walls inside the border."""
    goals: tuple[Cell, ...]
    boxes: tuple[Cell, ...]
    player: Cell

    @property
    def identity(self) -> str:
        """The whole instance."""
        return repr((self.size, self.walls, self.goals, self.boxes, self.player))

    def open(self, cell: Cell) -> bool:
        """Whether a cell is neither border nor wall."""
        inside = 0 < cell[0] < self.size - 1 and 0 < cell[1] < self.size - 1
        return inside and cell not in self.walls


def neighbour(cell: Cell, step: Cell, times: int = 1) -> Cell:
    """The cell `times` steps away."""
    return (cell[0] + times * step[0], cell[1] + times * step[1])


@lru_cache(maxsize=8192)
def pushes_left(level: Level) -> dict[Cell, int]:
    """Fewest pushes that bring one box, alone on the board, from a cell to a goal; no entry if impossible.

    Ignores whether the player can reach the pushing position, because the planner does not see the player.
    """
    distances = dict.fromkeys(level.goals, 0)
    queue = deque(level.goals)
    while queue:
        cell = queue.popleft()
        for step in MOVES.values():
            origin = neighbour(cell, step, -1)
            if origin not in distances and level.open(origin) and level.open(neighbour(cell, step, -2)):
                distances[origin] = distances[cell] + 1
                queue.append(origin)
    return distances


@lru_cache(maxsize=8192)
def moves_left(level: Level) -> dict[tuple[Cell, Cell], int]:
    """Fewest moves, walks and pushes, that bring one box, alone on the board, to a goal: (player, box) -> moves; no entry if impossible."""
    inside = range(1, level.size - 1)
    cells = [(row, column) for row in inside for column in inside if level.open((row, column))]
    distances = {(player, goal): 0 for goal in level.goals for player in cells if player != goal}
    queue = deque(distances)
    while queue:
        player, box = queue.popleft()
        for step in MOVES.values():
            origin = neighbour(player, step, -1)
            before = [(origin, box)] if origin != box else []
            if neighbour(player, step) == box:
                before.append((origin, player))  # the last move may have been a push
            for position in before:
                if position not in distances and level.open(origin):
                    distances[position] = distances[player, box] + 1
                    queue.append(position)
    return distances


def walk(level: Level, boxes: Collection[Cell], start: Cell, end: Cell) -> list[str] | None:
    """A shortest path around walls and boxes; None if there is none."""
    paths: dict[Cell, list[str]] = {start: []}
    queue = deque([start])
    while queue and end not in paths:
        cell = queue.popleft()
        for word, step in MOVES.items():
            nearby = neighbour(cell, step)
            if nearby not in paths and nearby not in boxes and level.open(nearby):
                paths[nearby] = [*paths[cell], word]
                queue.append(nearby)
    return paths.get(end)


def draw_level(config: Sokoban, random: Random, split: Split) -> Level:
    """A level of a split. Boxes start on the goals and are pulled away, so pushing them back solves the level."""
    inside = [(row, column) for row in range(1, config.size - 1) for column in range(1, config.size - 1)]
    while True:
        walls = random.sample(inside, round(config.wall_share * len(inside)))
        free = [cell for cell in inside if cell not in walls]
        *goals, player = random.sample(free, config.boxes + 1)
        solved = Level(config.size, tuple(sorted(walls)), tuple(sorted(goals)), tuple(sorted(goals)), player)
        level = _pulled(solved, random.randint(2, 2 * config.boxes * config.size), random)
        if _worth_playing(level) and held_out(level) == (split == "eval"):
            return level


def _worth_playing(level: Level) -> bool:
    """Whether no box is on a goal and more than one push per box is needed on average."""
    pushes = pushes_left(level)
    return all(pushes[box] for box in level.boxes) and sum(pushes[box] for box in level.boxes) > len(
        level.boxes
    )


def _pulled(level: Level, pulls: int, random: Random) -> Level:
    """The level after some random pulls, with the player at a random reachable cell."""
    boxes, player = list(level.boxes), level.player
    for _ in range(pulls):
        options = [
            (number, step)
            for number, box in enumerate(boxes)
            for step in MOVES.values()
            if _can_pull(level, boxes, player, box, step)
        ]
        if not options:
            break
        number, step = random.choice(options)
        boxes[number], player = neighbour(boxes[number], step), neighbour(boxes[number], step, 2)
    return Level(
        level.size, level.walls, level.goals, tuple(sorted(boxes)), _anywhere(level, boxes, player, random)
    )


def _can_pull(level: Level, boxes: list[Cell], player: Cell, box: Cell, step: Cell) -> bool:
    near, far = neighbour(box, step), neighbour(box, step, 2)
    room = all(level.open(cell) and cell not in boxes for cell in (near, far))
    return room and walk(level, boxes, player, near) is not None


def _anywhere(level: Level, boxes: list[Cell], player: Cell, random: Random) -> Cell:
    inside = range(1, level.size - 1)
    cells = [(row, column) for row in inside for column in inside if level.open((row, column))]
    return random.choice(
        [cell for cell in cells if cell not in boxes and walk(level, boxes, player, cell) is not None]
    )


SOKOBAN_TASKS = Tasks(draw_level)


COMPASS = {"north": "up", "south": "down", "west": "left", "east": "right"}
"""The planner's words and the moves that they mean."""
STUCK = "stuck"
"""Shown instead of the last move if the following turn had no effect: without it, greedy play repeats itself indefinitely."""


class SokobanEnvironment(TaskEnvironment[Sokoban, Level]):
    """One level. The planner names a push (`east`, or `2 east` for box 2), then the executor moves (`up right right`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    tasks = SOKOBAN_TASKS

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
            return " ; ".join(self._box_seen(number, COMPASS) for number in range(len(self.boxes)))
        plan = " ".join(self.plan) or "none"
        return f"{self._boxes_around()} ; {self._around()} ; plan {plan}"

    def _boxes_around(self) -> str:
        return " ; ".join(
            f"box {number} {_way(self.player, box, tuple(MOVES))}" for number, box in enumerate(self.boxes, 1)
        )

    def _around(self) -> str:
        sides = " ".join(f"{word} {self._what(neighbour(self.player, step))}" for word, step in MOVES.items())
        return f"{sides} ; last {' '.join(self.last) or 'none'}"

    def _box_seen(self, number: int, names: Mapping[str, str]) -> str:
        """Goals and walls relative to a box; `names` are the words for up, down, left and right."""
        box = self.boxes[number]
        goals = " , ".join(f"goal {_way(box, goal, tuple(names))}" for goal in self.level.goals)
        sides = " ".join(f"{word} {self._what(neighbour(box, MOVES[move]))}" for word, move in names.items())
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


class SokobanSingleEnvironment(SokobanEnvironment):
    """One agent, the player, sees boxes and goals and moves."""

    roles: ClassVar[tuple[str, ...]] = ("player",)

    def observe(self, role: str) -> str:
        """The boxes relative to itself, goals and walls relative to the boxes, the walls around it, its last move."""
        names = {move: move for move in MOVES}
        boxes = " ; ".join(self._box_seen(number, names) for number in range(len(self.boxes)))
        return f"{self._boxes_around()} ; {boxes} ; {self._around()}"

    def act(self, role: str, answer: str) -> StepResult:
        """Move."""
        return self._move_all(after_thought(answer).split())


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


NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one."""
STATES_PER_LEVEL = 8
TURNED = 0.1
"""Probability that the planner reverses its direction."""
MISREAD = 0.15
"""Probability that the executor does."""
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
_IN_COMPASS = {move: word for word, move in COMPASS.items()}


def sokoban_demonstrations(config: Sokoban, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = keyed_random(seed, 2)
    environment = SokobanEnvironment(config, seed)
    while True:
        level = draw_level(config, random, "train")
        for _ in range(STATES_PER_LEVEL):
            environment.start(level, "demonstration")
            _random_state(environment, level, random)
            number = random.choice([n for n, box in enumerate(environment.boxes) if box not in level.goals])
            named = [str(number + 1)] if config.boxes > 1 else []
            towards = _axis_to_a_goal(environment.boxes[number], level, random)
            direction = _turned(towards, TURNED, random)
            yield (
                environment.observe("planner"),
                _noisy([*named, _IN_COMPASS[direction]], list(COMPASS), random),
            )
            meant = towards if random.random() < 0.7 else random.choice(list(MOVES))
            environment.plan = (*named, _IN_COMPASS[meant])
            moves = _round_and_push(environment, number, _turned(meant, MISREAD, random))
            yield (
                environment.observe("executor"),
                _noisy(moves or [random.choice(list(MOVES))], list(MOVES), random),
            )


def _random_state(environment: SokobanEnvironment, level: Level, random: Random) -> None:
    """Place boxes and player so that the level is solvable and not all boxes are on goals."""
    inside = range(1, level.size - 1)
    cells = [(row, column) for row in inside for column in inside if level.open((row, column))]
    alive = [cell for cell in cells if cell in environment.alive]
    while True:
        boxes = tuple(random.sample(alive, len(level.boxes)))
        if set(boxes) != set(level.goals):
            break
    environment.boxes = boxes
    environment.player = random.choice([cell for cell in cells if cell not in boxes])
    environment.last = random.choice([(), (STUCK,), *((word,) for word in MOVES)])


def _axis_to_a_goal(box: Cell, level: Level, random: Random) -> str:
    """A move that brings a box nearer to the nearest goal in a straight line."""
    goal = min(level.goals, key=lambda cell: abs(cell[0] - box[0]) + abs(cell[1] - box[1]))
    rows, columns = goal[0] - box[0], goal[1] - box[1]
    options = ["down" if rows > 0 else "up"] if rows else []
    options += ["right" if columns > 0 else "left"] if columns else []
    return random.choice(options)


def _turned(move: str, probability: float, random: Random) -> str:
    return OPPOSITE[move] if random.random() < probability else move


def _round_and_push(environment: SokobanEnvironment, number: int, move: str) -> list[str]:
    """The shortest walk to the far side of a box, and a push; truncated to one turn, empty if there is none."""
    box = environment.boxes[number]
    behind = neighbour(box, MOVES[move], -1)
    path = walk(environment.level, environment.boxes, environment.player, behind)
    return [] if path is None else [*path, move][: environment.config.moves_per_turn]


def _noisy(words: list[str], vocabulary: list[str], random: Random) -> str:
    return " ".join(
        random.choice(vocabulary) if word in vocabulary and random.random() < NOISE else word
        for word in words
    )


WARM_START = WarmStart(sokoban_vocabulary, sokoban_demonstrations, NOISE)
