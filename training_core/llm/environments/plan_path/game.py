"""Plan-path for two: the planner sees the direction of the goal, the executor sees the walls around it.

Based on plan_path of PettingLLMs (arXiv 2510.11062), with the information split between the roles: neither can reach
the goal alone. The planner answers in compass words; the executor walks. Rows count downwards, columns to the right;
a cell is (row, column); distances are lengths of shortest paths in cells. `environment.wording` selects the form of
observations and answers.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, ClassVar

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.plan_path.config import PlanPathGrid
from training_core.llm.environments.plan_path.wording import COMPASS, MOVES, STUCK, WORDINGS, Cell, spoken
from training_core.llm.environments.splits import Tasks, held_out
from training_core.llm.environments.task_environment import PuzzleEnvironment


@dataclass(frozen=True)
class Grid:
    """A task instance."""

    size: int
    walls: frozenset[Cell]
    start: Cell
    goal: Cell

    def free(self, cell: Cell) -> bool:
        """Whether a cell is on the grid and not a wall."""
        return 0 <= cell[0] < self.size and 0 <= cell[1] < self.size and cell not in self.walls

    @property
    def identity(self) -> str:
        """The whole instance."""
        return repr((self.size, sorted(self.walls), self.start, self.goal))


@lru_cache(maxsize=8192)
def distances(grid: Grid) -> dict[Cell, int]:
    """Length of the shortest path to the goal from every cell with one (breadth-first search)."""
    lengths = {grid.goal: 0}
    queue = deque([grid.goal])
    while queue:
        cell = queue.popleft()
        for step in MOVES.values():
            nearby = (cell[0] + step[0], cell[1] + step[1])
            if nearby not in lengths and grid.free(nearby):
                lengths[nearby] = lengths[cell] + 1
                queue.append(nearby)
    return lengths


def draw_grid(config: PlanPathGrid, random: Random, split: Split) -> Grid:
    """A grid of a split with a reachable goal, at least two steps from the start."""
    cells = [(row, column) for row in range(config.size) for column in range(config.size)]
    while True:
        walls = frozenset(random.sample(cells, round(config.wall_share * len(cells))))
        start, goal = random.sample([cell for cell in cells if cell not in walls], 2)
        grid = Grid(config.size, walls, start, goal)
        if held_out(grid) == (split == "eval") and distances(grid).get(start, 0) >= 2:
            return grid


PLAN_PATH_TASKS = Tasks(draw_grid)


class PlanPathEnvironment(PuzzleEnvironment[PlanPathGrid, Grid]):
    """One walk. The planner gives a plan (up to `moves_per_turn` compass words), then the executor walks."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def draw(self, task: int, split: Split) -> Grid:
        """The instance of a task number."""
        return PLAN_PATH_TASKS.instance(self.config, self.seed, task, split)

    def begin(self, grid: Grid) -> None:
        """Start on a given grid."""
        self.grid = grid
        self.wording = WORDINGS[self.config.wording]
        self._distances = distances(grid)
        self.cell = self.grid.start
        self.plan: tuple[str, ...] = ()
        self.last: tuple[str, ...] = ()
        self.walked = 0

    def observe(self, role: str) -> str:
        """Planner: direction and distance of the goal. Executor: walls around it, its last moves, the plan."""
        if role == "planner":
            return self.goal_observation()
        return self.wording.join(self.walls_observation(), self.memory(), self.wording.plan(self.plan))

    def goal_observation(self) -> str:
        """Distance of the goal by axis."""
        return self.wording.goal(self.grid.goal[0] - self.cell[0], self.grid.goal[1] - self.cell[1])

    def walls_observation(self) -> str:
        """Which of the four neighbouring cells are free."""
        return self.wording.sides({move: self.grid.free(self.next_cell(move)) for move in MOVES})

    def memory(self) -> str:
        """The last move, and whether the last turn had no effect."""
        return self.wording.memory(self.last)

    def act(self, role: str, answer: str) -> StepResult:
        """Process a plan, or walk."""
        return self.take_plan(answer) if role == "planner" else self.walk(answer)

    def take_plan(self, answer: str) -> StepResult:
        """Score a plan by what the planner can know: as if there were no walls.

        Scored on the real grid, it would also be rewarded for walls that it cannot see, and the best of K plans would
        already avoid them: the executor would rarely see a blocked plan in training, unlike in evaluation.
        """
        self.plan = self.wording.read(answer, COMPASS, self.config.moves_per_turn)
        if not self.plan:
            return StepResult(self.config.blocked_reward, 0.0, False, False, "no plan")
        cell, local = self.cell, 0.0
        for word in self.plan:
            if cell == self.grid.goal:
                break
            target = _neighbour(cell, COMPASS[word])
            local += self._move_reward(self._steps_in_the_open(cell), self._steps_in_the_open(target))
            cell = target
        return StepResult(local, 0.0, False, False, f"plans {spoken(self.plan)}")

    def walk(self, answer: str) -> StepResult:
        """Make the moves until the goal is reached; the turn of the team ends with it."""
        self.turns += 1
        known = self.wording.walk
        words = self.wording.read(answer, known, self.config.moves_per_turn)
        local = 0.0 if words else self.config.blocked_reward
        taken: list[str] = []
        for move in (known[word] for word in words):
            cell, reward = self._move(self.cell, move)
            local += reward
            if cell != self.cell:
                taken.append(move)
                self.walked += 1
            self.cell = cell
            if cell == self.grid.goal:
                break
        self.last = (taken[-1],) if taken else (*(word for word in self.last if word != STUCK), STUCK)
        self.plan = ()
        return self._end_of_turn(local, taken)

    def _end_of_turn(self, local: float, taken: list[str]) -> StepResult:
        solved = self.cell == self.grid.goal
        optimal = solved and self.walked == self._distances[self.grid.start]
        bonus = self.config.optimal_reward if optimal else 0.0
        return self.end_of_turn(local, f"walks {spoken(taken)}", solved=solved, bonus=bonus)

    def _move(self, cell: Cell, word: str) -> tuple[Cell, float]:
        """The cell after a move, and its local reward."""
        target = _neighbour(cell, word)
        if not self.grid.free(target):
            return cell, self.config.blocked_reward
        return target, self._move_reward(self._distances[cell], self._distances[target])

    def _move_reward(self, before: int, after: int) -> float:
        """Cost of a move plus its shaping, gamma * potential after - potential before (Ng, Harada, Russell 1999).

        Potentials are minus the remaining steps, as a share of the path from start to goal: -1 at the start, 0 at the
        goal. As in `shaped`, but rounded in another order, because measured curves depend on these exact numbers.
        """
        whole = self._distances[self.grid.start]
        shaped = self.config.shaping_discount * -after / whole + before / whole
        return self.config.step_reward + self.config.shaping * shaped

    def _steps_in_the_open(self, cell: Cell) -> int:
        return abs(cell[0] - self.grid.goal[0]) + abs(cell[1] - self.grid.goal[1])

    @property
    def reachable(self) -> list[Cell]:
        """Cells from which the goal can be reached, nearest first."""
        return list(self._distances)

    def next_cell(self, word: str) -> Cell:
        """The neighbouring cell in a direction, free or not."""
        return _neighbour(self.cell, word)

    def board(self) -> dict[str, Any]:
        """The grid with walls, goal and agent."""
        cells: list[list[Any]] = [[row, column, "wall"] for row, column in sorted(self.grid.walls)]
        cells.append([*self.grid.goal, "goal"])
        cells.append([*self.cell, "agent"])
        return {"kind": "grid", "rows": self.grid.size, "columns": self.grid.size, "cells": cells}

    @property
    def title(self) -> str:
        """Size, walls and distance."""
        size, walls = self.grid.size, len(self.grid.walls)
        return f"{size}×{size}, {walls} wall{'s' * (walls != 1)}, {self._distances[self.grid.start]} steps"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("reached the goal")


def _neighbour(cell: Cell, word: str) -> Cell:
    return (cell[0] + MOVES[word][0], cell[1] + MOVES[word][1])


def plan_path_vocabulary(config: PlanPathGrid) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order, with wording = "words"."""
    numbers = tuple(str(number) for number in range(1, config.size))
    return (*MOVES, *COMPASS, *numbers, "goal", "here", "free", "wall", "last", "plan", "none", STUCK, ";")
