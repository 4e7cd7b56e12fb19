"""plan_path with other teams: one agent that sees everything, or three agents with partial observations.

Tasks, rewards of walking and held-out instances are those of plan_path; only observations and messages differ.
"""

from typing import ClassVar

from training_core.llm.environments.base import StepResult
from training_core.llm.environments.plan_path.config import PlanPathTrio
from training_core.llm.environments.plan_path.game import Grid, PlanPathEnvironment
from training_core.llm.environments.plan_path.wording import MOVES, spoken


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
