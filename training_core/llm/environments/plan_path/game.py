"""Plan-path for two: the planner sees the direction of the goal, the executor sees the walls around it.

Based on plan_path of PettingLLMs (arXiv 2510.11062), with the information split between the roles: neither can reach
the goal alone. The planner answers in compass words; the executor walks. Rows count downwards, columns to the right;
a cell is (row, column); distances are lengths of shortest paths in cells. `environment.wording` selects the form of
observations and answers.

Other teams: one agent that sees everything, or three agents with partial observations. Tasks, rewards of walking and
held-out instances are the same; only observations and messages differ.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import Wording
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.plan_path.wording import COMPASS, MOVES, STUCK, WORDINGS, Cell, spoken
from training_core.llm.environments.task_environment import PuzzleEnvironment, PuzzleRewards, Tasks, held_out


class PlanPathGrid(PuzzleRewards):
    """Settings shared by the grid walks, independent of the roles."""

    task_fields: ClassVar[tuple[str, ...]] = ("size", "wall_share", "wording")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "moves_per_turn")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("step_reward", "blocked_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = ("goal_reward", "optimal_reward", "fail_reward")
    type: str
    """Which role observes what, and which role moves."""
    wording: Wording = "words"
    """words: the tiny model's few words, answers read strictly. sentences: plain English for pretrained models, answers read leniently."""
    size: int = Field(5, ge=3, le=20)
    """Rows and columns of the grid, in cells."""
    wall_share: float = Field(0.08, ge=0.0, le=0.5)
    """Share of cells that are walls; the goal can always be reached."""
    max_turns: int = Field(5, ge=1, le=64)
    """Turns of the whole team before the episode ends without success."""
    moves_per_turn: int = Field(3, ge=1, le=8)
    """Maximum number of moves in one turn, in cells."""
    blocked_reward: float = -0.10
    """Local reward for a move into a wall or off the grid, or for an answer that is not a move."""
    goal_reward: float = 1.0
    """Team reward when the goal is reached."""
    optimal_reward: float = 0.5
    """Further team reward when the goal is reached by a shortest path."""


class PlanPath(PlanPathGrid):
    """A walk on a grid with walls to a goal that only the planner sees."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    type: Literal["plan_path"] = "plan_path"
    """Path finding on a small grid."""


class PlanPathSingle(PlanPathGrid):
    """The same walk by one agent that sees the observations of planner and executor (single-agent control)."""

    roles: ClassVar[tuple[str, ...]] = ("walker",)
    type: Literal["plan_path_single"] = "plan_path_single"
    """Path finding on a small grid by a single agent."""


class PlanPathTrio(PlanPathGrid):
    """The same walk by three: the planner sees the goal, the scout the walls, and the executor only their messages."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "scout", "executor")
    local_reward_fields: ClassVar[tuple[str, ...]] = (*PlanPathGrid.local_reward_fields, "report_reward")
    type: Literal["plan_path_trio"] = "plan_path_trio"
    """Path finding on a small grid by three agents."""
    report_reward: float = Field(0.2, ge=0.0)
    """Local reward of the scout for a report that is correct about all four sides; one that is wrong about all four gets its negative."""


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
    tasks = PLAN_PATH_TASKS

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
        optimal = not self.left and self.walked == self.whole
        bonus = self.config.optimal_reward if optimal else 0.0
        return self.end_of_turn(local, f"walks {spoken(taken)}", bonus)

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
    def left(self) -> int:
        """Steps to the goal."""
        return self._distances[self.cell]

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


class PlanPathSingleEnvironment(PlanPathEnvironment):
    """One agent, the walker, sees the observations of planner and executor, and walks. It gets no plan."""

    roles: ClassVar[tuple[str, ...]] = ("walker",)

    def observe(self, role: str) -> str:
        """The goal, the walls around it, its last move."""
        return self.wording.join(self.goal_observation(), self.walls_observation(), self.memory())

    def act(self, role: str, answer: str) -> StepResult:
        """Walk."""
        return self.walk(answer)


class PlanPathTrioEnvironment(PlanPathEnvironment):
    """The planner only sees the goal, the scout only the walls; the executor walks by their messages.

    Planner and scout do not see each other's messages: they may act in parallel (`team.parallel`).
    """

    roles: ClassVar[tuple[str, ...]] = ("planner", "scout", "executor")
    config: PlanPathTrio

    def begin(self, grid: Grid) -> None:
        """Start on a given grid."""
        super().begin(grid)
        self.report: tuple[str, ...] = ()

    def observe(self, role: str) -> str:
        """Planner: the goal. Scout: the four sides. Executor: its last move, the plan, and the sides reported as blocked."""
        if role == "planner":
            return self.goal_observation()
        if role == "scout":
            return self.walls_observation()
        return self.wording.join(
            self.memory(), self.wording.plan(self.plan), self.wording.report(self.report)
        )

    def act(self, role: str, answer: str) -> StepResult:
        """Process a plan or a report, or walk; walking clears both."""
        if role == "planner":
            return self.take_plan(answer)
        if role == "scout":
            return self.take_report(answer)
        self.report = ()
        return self.walk(answer)

    def take_report(self, answer: str) -> StepResult:
        """Process the sides reported as blocked ("none": none). Each of the four is rewarded if correct and penalised if wrong."""
        walls = self.wording.read_report(answer)
        self.report = walls or ()
        if walls is None:
            return StepResult(-self.config.report_reward, 0.0, False, False, "no report")
        right = sum((word in walls) != self.grid.free(self.next_cell(word)) for word in MOVES)
        share = (2 * right - len(MOVES)) / len(MOVES)
        return StepResult(
            self.config.report_reward * share, 0.0, False, False, f"reports walls {spoken(walls)}"
        )
