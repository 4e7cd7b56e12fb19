"""Coding for two: a tester writes tests for a task, a coder writes the program, and both see the test results.

Based on the code task of PettingLLMs (arXiv 2510.11062): the coder is rewarded by hidden tests, the tester if the
known solution passes its tests. A turn of the team ends when both have answered, in the team's order; the episode
ends when the program passes the tester's tests, or when the turns run out.
"""

import re
from math import ceil
from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.coding.config import Coding
from training_core.llm.environments.coding.problems import CODING_TASKS, Problem, Test, read_problems
from training_core.llm.environments.task_environment import TaskEnvironment
from training_core.sandbox.run import Limits, Ran, check_sandbox, run_program

_FENCED = re.compile(r"```[^`\n]*\n(.*?)```", re.DOTALL)
"""A fenced block, with any word after its first fence."""


class CodingEnvironment(TaskEnvironment[Coding, Problem]):
    """One problem. The constructor raises SandboxFailure if no sandbox can be started, EnvironmentFailure if the file
    of problems is invalid.
    """

    roles: ClassVar[tuple[str, ...]] = ("tester", "coder")

    def __init__(self, config: Coding, seed: int) -> None:
        check_sandbox()
        if config.problems:
            read_problems(config.problems)
        super().__init__(config, seed)

    def draw(self, task: int, split: Split) -> Problem:
        """The instance of a task number."""
        return CODING_TASKS.instance(self.config, self.seed, task, split)

    def begin(self, problem: Problem) -> None:
        """Start on a given problem."""
        self.problem = problem
        self.tests: tuple[Test, ...] = ()
        self.program = ""
        self.ran: tuple[Ran, ...] = ()
        """The program's results on the tester's tests, when both last existed."""
        self.passed = 0
        self.right_tests: bool | None = None
        """Whether the known solution passes all of the tester's tests; None before it is known."""
        self._spoken: frozenset[str] = frozenset()

    def observe(self, role: str) -> str:
        """Both: the task, the tester's tests and the program's outputs for them. The coder: also its program."""
        parts = [f"task {self.problem.statement}", f"tests {self._tests_text()}"]
        if role == "coder" and self.program:
            parts.append(f"program {self.program}")
        return " ; ".join(parts)

    def act(self, role: str, answer: str) -> StepResult:
        """Process tests, or a program."""
        local, info = self._take_tests(answer) if role == "tester" else self._take_program(answer)
        self._spoken = self._spoken | {role}
        if self._spoken != {"tester", "coder"}:
            return StepResult(local, 0.0, False, self.success, info)
        return self._end_of_turn(local, info)

    def _take_tests(self, answer: str) -> tuple[float, str]:
        self.tests, self.ran = read_tests(answer)[: self.config.tests_per_turn], ()
        if not self.tests:
            self.right_tests = False
            return self.config.malformed_reward, "no test"
        if not self.problem.solution:
            return 0.0, f"{len(self.tests)} tests"
        right = sum(map(passes, self._run(self.problem.solution, self.tests), self.tests))
        self.right_tests = right == len(self.tests)
        return self.config.test_reward * right / len(self.tests), f"{right} of {len(self.tests)} tests right"

    def _take_program(self, answer: str) -> tuple[float, str]:
        self.program, self.ran = read_program(answer), ()
        judged = self._run(self.program, self.problem.tests)
        self.passed = sum(map(passes, judged, self.problem.tests))
        whole = len(self.problem.tests)
        self.success = self.passed == whole
        if not self.program or judged[0].status == "invalid":
            return self.config.malformed_reward, "no program"
        return self.config.pass_reward * self.passed / whole, f"{self.passed} of {whole} hidden tests passed"

    def _end_of_turn(self, local: float, info: str) -> StepResult:
        self._spoken = frozenset()
        self.turns += 1
        self.ran = tuple(self._run(self.program, self.tests))
        agreed = bool(self.tests) and all(map(passes, self.ran, self.tests))
        self.done = agreed or self.turns >= self.config.max_turns
        team = 0.0
        if self.done:
            team = self.config.solved_reward if self.success else self.config.fail_reward
        return StepResult(local, team, self.done, self.success, info)

    def _run(self, program: str, tests: tuple[Test, ...]) -> list[Ran]:
        return run_program(program, [test.input for test in tests], self._limits(len(tests))) if tests else []

    def _limits(self, tests: int) -> Limits:
        seconds = self.config.test_seconds
        whole = max(Limits.cpu_seconds, ceil(seconds * tests))
        return Limits(test_seconds=seconds, cpu_seconds=whole, memory_mib=self.config.memory_mib)

    def _tests_text(self) -> str:
        """The tests, with the program's outputs once it has run."""
        if not self.ran:
            return " , ".join(map(_spelled, self.tests)) or "none"
        pairs = zip(self.tests, self.ran, strict=True)
        return " , ".join(
            f"{_spelled(test)} {'good' if passes(ran, test) else f'got {_got(ran)}'}" for test, ran in pairs
        )

    def board(self) -> dict[str, Any]:
        """Task, program and tests, line by line."""
        lines = [_line("task", self.problem.statement)]
        if self.program:
            share = f"{self.passed} of {len(self.problem.tests)} hidden tests passed"
            lines += [_line("program", self.program), _line("judged", share, self.success)]
        for index, test in enumerate(self.tests):
            ran = self.ran[index] if self.ran else None
            good = None if ran is None else passes(ran, test)
            got = f", got {_got(ran)}" if ran is not None and not good else ""
            lines.append(_line("test", f"{_spelled(test)}{got}", good))
        return {"kind": "lines", "lines": lines}

    @property
    def role_success(self) -> dict[str, bool]:
        """The coder's: every hidden test passes. The tester's: the known solution passes every test of its last answer."""
        successes = {"coder": self.success}
        return successes if self.right_tests is None else successes | {"tester": self.right_tests}

    @property
    def title(self) -> str:
        """The beginning of the statement."""
        return self.problem.statement[:120]

    @property
    def outcome(self) -> str:
        """The outcome."""
        if not self.done:
            return "under way"
        return f"{self.passed} of {len(self.problem.tests)} hidden tests passed in {self.turns} turn{'s' * (self.turns != 1)}"


def passes(ran: Ran, test: Test) -> bool:
    """Whether a program's output matches a test; trailing spaces of lines and of the whole output are ignored."""
    return ran.status == "ok" and _lines(ran.output) == _lines(test.output)


def _line(label: str, text: str, good: bool | None = None) -> dict[str, str]:
    return {"label": label, "text": text[:2000], "state": "" if good is None else "good" if good else "bad"}


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def read_program(answer: str) -> str:
    """The program in an answer: its last fenced block, or all of it if there is none. The reasoning part is ignored."""
    text = after_thought(answer)
    blocks = _FENCED.findall(text) or [
        block for block in _FENCED.findall(answer)[-1:] if after_thought(block) != block
    ]
    return str(
        blocks[-1] if blocks else text
    ).strip()  # a block that contains the tag itself is not reasoning


def read_tests(answer: str) -> tuple[Test, ...]:
    r"""The tests in an answer: `INPUT -> OUTPUT`, one per line or separated by " , "; \n in them is a line break."""
    tests = []
    for part in re.split(r"\n| , ", after_thought(answer)):
        input_text, arrow, output = part.partition("->")
        if arrow and output.strip():
            tests.append(Test(input=_unescaped(input_text), output=_unescaped(output)))
    return tuple(tests)


def _unescaped(text: str) -> str:
    return text.strip().replace("\\n", "\n")


def _spelled(test: Test) -> str:
    return f"{test.input} -> {test.output}".replace("\n", "\\n")


def _got(ran: Ran) -> str:
    """The program's output, or how it failed, in a few words."""
    return (ran.output.strip().replace("\n", "\\n")[:200] or "nothing") if ran.status == "ok" else ran.status
