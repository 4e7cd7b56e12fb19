"""Arithmetic for a tool agent and a reasoning agent, for a proposer and a checker, or for reasoning agents alone.

Based on the math tasks of PettingLLMs (arXiv 2510.11062), where one agent writes code that is run and another
reasons: here `tool` writes an expression, a calculator evaluates it, and the other roles (`reasoner`) see the result
and answer. Instead of a tool agent, the role `environment.proposer` may propose a result, which the other roles
confirm or correct. After a wrong answer the team tries again, until its turns are used up; success in a role's turn t
gives turn_discount^(t - 1): 1 in the first turn. `environment.wording` selects the form of observations and answers.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.arithmetic.config import Arithmetic
from training_core.llm.environments.arithmetic.problems import (
    MOST_LETTERS,
    Problem,
    calculate,
    spelled,
    task_problem,
)
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.task_environment import TaskEnvironment
from training_core.llm.rewards.math import as_fraction, final_answer

TOOL = "tool"
"""The role whose answers go to the calculator. Every other role except `environment.proposer` answers the problem."""
_EXPRESSION = re.compile(r"[-(]*\d[\d\s+*/().-]*")
NOTHING = "nothing"
"""Placeholder for a result or an answer that is not a number."""


@dataclass(frozen=True)
class Phrases:
    """The parts of an observation, by `environment.wording`."""

    ask: str
    """The problem, for answering roles."""
    write: str
    """The problem, for the tool agent."""
    wrong: str
    """Incorrect answers."""
    result: str
    """A role's name and its result."""
    between: str
    """Separator between several wrong answers."""


PHRASES = {
    "words": Phrases(
        "What is {} ?", "Write {} as an expression .", "Not correct : {} .", "The {} says {} .", " "
    ),
    "sentences": Phrases(
        "What is {}?", "Write {} as an expression.", "Not correct: {}.", "The {} says {}.", ", "
    ),
}


class ArithmeticEnvironment(TaskEnvironment[Arithmetic, Problem]):
    """One problem. A tool agent or a proposer speaks first; roles after it see its result."""

    roles: ClassVar[tuple[str, ...]] = (TOOL, "reasoner")

    def draw(self, task: int, split: Split) -> Problem:
        """The instance of a task number."""
        return task_problem(self.config, self.seed, task, split)

    def begin(self, problem: Problem) -> None:
        """Start with a given problem."""
        self.problem = problem
        self.expression: str | None = None
        """The tool agent's expression in this round; None before."""
        self.proposal: str | None = None
        """The proposer's answer in this round; None before."""
        self.wrong: tuple[str, ...] = ()
        """Incorrect answers, in order."""
        self.speakers: tuple[str, ...] = ()
        """Roles that have answered, in order."""

    def observe(self, role: str) -> str:
        """The problem, wrong answers so far, and the result of the tool or the proposer."""
        phrases = PHRASES[self.config.wording]
        problem = self.problem.words if self.config.wording == "words" else self.problem.expression
        parts = [(phrases.write if role == TOOL else phrases.ask).format(problem)]
        if self.wrong:
            parts.append(phrases.wrong.format(phrases.between.join(self.wrong)))
        if role != TOOL and self.expression is not None:
            parts.append(phrases.result.format(TOOL, self.result))
        if role not in (TOOL, self.config.proposer) and self.proposal is not None:
            parts.append(phrases.result.format(self.config.proposer, self.proposal))
        return " ".join(parts)

    @property
    def result(self) -> str:
        """The calculator's result for the last expression."""
        value = calculate(self.expression or "")
        return NOTHING if value is None else spelled(value)

    def act(self, role: str, answer: str) -> StepResult:
        """Process an expression, a proposal, or an answer."""
        if role == TOOL:
            return self._calculate(self._expression(answer))
        return self._propose(answer) if role == self.config.proposer else self._answer(role, answer)

    def _expression(self, answer: str) -> str:
        text = after_thought(answer).strip()
        match = _EXPRESSION.search(text) if self.config.wording == "sentences" else None
        return match[0] if match else text

    def _calculate(self, expression: str) -> StepResult:
        self.expression = expression
        value = calculate(expression)
        if value is None:
            return StepResult(self.config.format_reward, 0.0, False, False, "cannot be calculated")
        local = self.config.tool_reward if value == self.problem.value else 0.0
        return StepResult(local, 0.0, False, False, f"the calculator says {spelled(value)}")

    def _propose(self, answer: str) -> StepResult:
        value = self._number(answer)
        self.proposal = NOTHING if value is None else spelled(value)
        if value is None:
            return StepResult(self.config.format_reward, 0.0, False, False, "no number")
        local = self.config.tool_reward if value == self.problem.value else 0.0
        return StepResult(local, 0.0, False, False, f"proposes {self.proposal}")

    def _number(self, answer: str) -> Fraction | None:
        """The final number of an answer; with wording = "words" it must be in a box."""
        number = final_answer(answer, strict=self.config.wording == "words")
        return None if number is None else as_fraction(number)

    def _answer(self, role: str, answer: str) -> StepResult:
        tries = self.speakers.count(role)
        self.speakers += (role,)
        value = self._number(answer)
        self.success = self.done = value == self.problem.value
        self.expression = self.proposal = None
        if self.success:
            team = self.config.right_reward * self.config.turn_discount**tries
            return StepResult(0.0, team, True, True, "right")
        self.wrong += (NOTHING if value is None else spelled(value),)
        local = self.config.format_reward if value is None else 0.0
        summary = (
            "wrong" if value is not None else "no number" + " in a box" * (self.config.wording == "words")
        )
        return StepResult(local, 0.0, False, False, summary)

    def board(self) -> dict[str, Any]:
        """The problem, the calculator's result and the answers, line by line."""
        lines = [("problem", self.problem.expression, "")]
        lines += [("answer", wrong, "bad") for wrong in self.wrong]
        if self.expression is not None:
            right = calculate(self.expression) == self.problem.value
            lines.append(
                (TOOL, f"{self.expression[:MOST_LETTERS]} = {self.result}", "good" if right else "bad")
            )
        if self.proposal is not None:
            good = self.proposal == spelled(self.problem.value)
            lines.append((self.config.proposer, self.proposal, "good" if good else "bad"))
        if self.success:
            lines.append(("answer", spelled(self.problem.value), "good"))
        return {
            "kind": "lines",
            "lines": [{"label": label, "text": text, "state": state} for label, text, state in lines],
        }

    @property
    def title(self) -> str:
        """The problem."""
        return self.problem.expression

    @property
    def outcome(self) -> str:
        """The outcome."""
        if self.success:
            return f"right at answer {len(self.speakers)}"
        return f"no right answer in {len(self.speakers)}" if self.speakers else "under way"
