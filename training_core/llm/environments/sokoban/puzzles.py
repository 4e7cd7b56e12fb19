"""Sokoban: levels that are solvable by construction, pushes, and distances of boxes from goals.

A cell is (row, column), rows downwards; the border is wall.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from training_core.llm.environments.base import Split
from training_core.llm.environments.sokoban.config import Sokoban
from training_core.llm.environments.splits import Tasks, held_out

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
