"""Coding for two: a tester writes tests for a task, a coder writes the program, and both see the test results.

Based on the code task of PettingLLMs (arXiv 2510.11062): the coder is rewarded by hidden tests, the tester if the
known solution passes its tests. A turn of the team ends when both have answered, in the team's order; the episode
ends when the program passes the tester's tests, or when the turns run out.

A generated problem chains operations on one number: "add 3 then times 2" expects 10 for 2. A file has one problem per
line: {"statement": str, "tests": [{"input": str, "output": str}, ...], "solution": str, optional, "id": str,
optional}.

Demonstrations for the tiny model teach the grammar of programs and of tests; the meaning is learnt in the run: operation
and number are each wrong with probability 1/2, and so is a test's output.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from random import Random
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, gives_tasks, needs, unless, where
from training_core.errors import EnvironmentFailure
from training_core.json_lines import read_lines
from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.dataset import data_file
from training_core.llm.environments.task_environment import TaskEnvironment, Tasks, held_out, keyed_random
from training_core.sandbox.run import Limits, Ran, Status, check_sandbox, run_program


class CodingTasks(EnvironmentSection):
    """Problems, tests and rewards, independent of the roles."""

    sandboxed: ClassVar[bool] = True
    file_fields: ClassVar[tuple[str, ...]] = ("problems", "eval_problems")
    task_fields: ClassVar[tuple[str, ...]] = ("problems", "eval_problems")
    play_fields: ClassVar[tuple[str, ...]] = (
        "hidden_tests",
        "max_turns",
        "tests_per_turn",
        "test_seconds",
        "memory_mib",
    )
    local_reward_fields: ClassVar[tuple[str, ...]] = ("pass_reward", "test_reward", "malformed_reward")
    team_reward_fields: ClassVar[tuple[str, ...]] = ("solved_reward", "fail_reward")
    effects: ClassVar[Effects] = {
        **needs("steps largest", both(where("problems", ""), gives_tasks)),
        "eval_problems": both(unless("problems", ""), gives_tasks),
    }
    type: str
    """Which role writes what."""
    problems: str = ""
    """JSONL file of problems, below TROUPE_HOME/data on the worker's machine; empty generates small problems from the seed."""
    eval_problems: str = ""
    """File of the held-out problems; empty holds out a quarter of `problems`, selected by the text."""
    steps: int = Field(2, ge=1, le=4)
    """Operations that a generated program must chain."""
    largest: int = Field(5, ge=2, le=99)
    """Largest number in a generated task and largest input of its tests."""
    hidden_tests: int = Field(4, ge=1, le=64)
    """Hidden tests per generated task; for problems from a file, at most this many per problem."""
    max_turns: int = Field(2, ge=1, le=32)
    """Turns of the whole team before the episode ends."""
    tests_per_turn: int = Field(2, ge=1, le=16)
    """Maximum number of tests that the tester writes in one turn."""
    pass_reward: float = 1.0
    """Local reward of the coder times the share of hidden tests that its program passes."""
    test_reward: float = 1.0
    """Local reward of the tester times the share of its tests that the known solution passes."""
    malformed_reward: float = -0.10
    """Local reward for an answer that is not a program or contains no test."""
    solved_reward: float = 1.0
    """Team reward when the program passes every hidden test at the end."""
    fail_reward: float = 0.0
    """Team reward when the program does not pass every hidden test at the end (usually zero or negative)."""
    test_seconds: float = Field(1.0, gt=0.0, le=60.0)
    """CPU time limit of a program on one test in seconds; the wall time limit is five times as long."""
    memory_mib: int = Field(256, ge=64, le=16384)
    """Memory limit of a program in MiB, including the interpreter."""


class Coding(CodingTasks):
    """A tester writes tests for a task and a coder writes the program; both see the test results and try again."""

    roles: ClassVar[tuple[str, ...]] = ("tester", "coder")
    type: Literal["coding"] = "coding"
    """Programs against tests, run in a sandbox."""


class CodingSingle(CodingTasks):
    """One agent writes tests and the program, sees the results and tries again (single-agent control)."""

    roles: ClassVar[tuple[str, ...]] = ("coder",)
    type: Literal["coding_single"] = "coding_single"
    """Programs against tests by a single agent, run in a sandbox."""


OPERATIONS = {"add": "+", "subtract": "-", "times": "*"}


class Test(BaseModel):
    """An input with the expected output."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    __test__ = False

    input: str
    output: str


class Problem(BaseModel):
    """A programming problem."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    statement: str = Field(min_length=1)
    tests: tuple[Test, ...] = Field(min_length=1)
    solution: str = ""
    """A correct program; empty if none is known: the tester's tests then get no reward."""
    id: str = ""

    @model_validator(mode="before")
    @classmethod
    def _text(cls, fields: Any) -> Any:
        """Public data sets name the text `question`."""
        named = isinstance(fields, dict) and "question" in fields
        return {"statement": fields["question"]} | fields if named else fields

    @property
    def identity(self) -> str:
        """The key that splits compare: problems with equal statements are identical."""
        return self.statement


@dataclass(frozen=True)
class _Named:
    identity: str


@dataclass(frozen=True)
class Step:
    """One operation on the number so far."""

    word: str
    amount: int

    def apply(self, value: int) -> int:
        """The number after this operation."""
        if self.word == "add":
            return value + self.amount
        return value - self.amount if self.word == "subtract" else value * self.amount


def draw_problem(config: CodingTasks, random: Random, split: Split) -> Problem:
    """A problem of a split: from the file if there is one, otherwise a generated one. Raises EnvironmentFailure."""
    if config.problems:
        problem = random.choice(_problems(config, split))
        return problem.model_copy(update={"tests": problem.tests[: config.hidden_tests]})
    return posed(draw_steps(config, random, split), config, random)


def draw_steps(config: CodingTasks, random: Random, split: Split) -> tuple[Step, ...]:
    """Operations of a split."""
    while True:
        steps = tuple(
            Step(random.choice(list(OPERATIONS)), random.randint(1, config.largest))
            for _ in range(config.steps)
        )
        if held_out(_Named(stated(steps))) == (split == "eval"):
            return steps


def posed(steps: Sequence[Step], config: CodingTasks, random: Random) -> Problem:
    """The problem for these operations."""
    inputs = random.sample(range(config.largest + 1), min(config.hidden_tests, config.largest + 1))
    return Problem(
        statement=stated(steps),
        tests=tuple(Test(input=str(value), output=str(applied(steps, value))) for value in inputs),
        solution=program(steps),
    )


def stated(steps: Sequence[Step]) -> str:
    """The operations in words."""
    return " then ".join(f"{step.word} {step.amount}" for step in steps)


def applied(steps: Sequence[Step], value: int) -> int:
    """The number after all of them."""
    for step in steps:
        value = step.apply(value)
    return value


def program(steps: Sequence[Step]) -> str:
    """A correct program, in words of a word-level tokenizer."""
    expression = "n"
    for step in steps:
        inner = expression if expression == "n" else f"( {expression} )"
        expression = f"{inner} {OPERATIONS[step.word]} {step.amount}"
    return f"n = int(input()) ; print( {expression} )"


@lru_cache(maxsize=4)
def read_problems(path: str) -> tuple[Problem, ...]:
    """A file's problems. Raises EnvironmentFailure, which names an invalid line."""
    try:
        lines = list(read_lines(data_file(path, "environment.problems")))
    except OSError as error:
        raise EnvironmentFailure(f"environment.problems: cannot read {path}: {error}") from error
    problems = []
    for line in lines:
        if line.problem:
            raise EnvironmentFailure(f"{path}, line {line.number}: {line.problem}")
        try:
            problems.append(Problem.model_validate(line.value))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "line"
            raise EnvironmentFailure(f"{path}, line {line.number}: {field}: {first['msg']}") from error
    if not problems:
        raise EnvironmentFailure(f"{path} contains no problem")
    return tuple(problems)


def _problems(config: CodingTasks, split: Split) -> Sequence[Problem]:
    """Problems of one split. Raises EnvironmentFailure if there is none."""
    if config.eval_problems:
        return read_problems(config.eval_problems if split == "eval" else config.problems)
    problems = read_problems(config.problems)
    selected = [problem for problem in problems if held_out(problem) == (split == "eval")]
    if not selected:
        raise EnvironmentFailure(
            f"of {len(problems)} problems none falls into the {split} part (a quarter is held out, by the text)",
            remedy="add more",
        )
    return selected


CODING_TASKS: Tasks[CodingTasks, Problem] = Tasks(draw_problem)


_FENCED = re.compile(r"```[^`\n]*\n(.*?)```", re.DOTALL)
"""A fenced block, with any word after its first fence."""


class CodingEnvironment(TaskEnvironment[CodingTasks, Problem]):
    """One problem. The constructor raises SandboxFailure if no sandbox can be started, EnvironmentFailure if the file
    of problems is invalid.
    """

    roles: ClassVar[tuple[str, ...]] = ("tester", "coder")
    tasks = CODING_TASKS

    def __init__(self, config: Coding, seed: int) -> None:
        check_sandbox()
        for path in (config.problems, config.eval_problems if config.problems else ""):
            if path:
                read_problems(path)
        super().__init__(config, seed)

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


class CodingSingleEnvironment(CodingEnvironment):
    """One agent, the coder, answers with tests and, in a fenced block, the program; its local reward is that of both roles."""

    roles: ClassVar[tuple[str, ...]] = ("coder",)

    def act(self, role: str, answer: str) -> StepResult:
        """Process tests and a program."""
        test_reward, tests = self._take_tests(_FENCED.sub("\n", after_thought(answer)))
        reward, summary = self._take_program(answer)
        return self._end_of_turn(test_reward + reward, f"{tests}, {summary}")

    @property
    def role_success(self) -> dict[str, bool]:
        """The coder's: every hidden test passes."""
        return {"coder": self.success}


def passes(ran: Ran, test: Test) -> bool:
    """Whether a program's output matches a test; trailing spaces of lines and of the whole output are ignored."""
    return ran.status == "ok" and _lines(ran.output) == _lines(test.output)


def _line(label: str, text: str, good: bool | None = None) -> dict[str, str]:
    return {"label": label, "text": text[:2000], "state": "" if good is None else "good" if good else "bad"}


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().split("\n")]


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


NOISE = 0.5
"""Probability that an operation, a number or an output is replaced."""


def coding_demonstrations(config: Coding, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, tester and coder in turn."""
    random = keyed_random(seed, 2)
    while True:
        steps = draw_steps(config, random, "train")
        task = f"task {stated(steps)} ; tests"
        yield f"{task} {_seen(steps, config, random)}", _tests(steps, config, random)
        yield f"{task} {_seen(steps, config, random)}", program(_misread(steps, config, random))


def _seen(steps: Sequence[Step], config: Coding, random: Random) -> str:
    """The tests in an observation: none with probability 1/2."""
    return "none" if random.random() < 0.5 else _tests(steps, config, random)


def _tests(steps: Sequence[Step], config: Coding, random: Random) -> str:
    count = random.randint(1, config.tests_per_turn)
    values = [random.randint(0, config.largest) for _ in range(count)]
    return " , ".join(f"{value} -> {applied(_misread(steps, config, random), value)}" for value in values)


def _misread(steps: Sequence[Step], config: Coding, random: Random) -> list[Step]:
    misread = []
    for step in steps:
        word = random.choice(list(OPERATIONS)) if random.random() < NOISE else step.word
        amount = random.randint(1, config.largest) if random.random() < NOISE else step.amount
        misread.append(Step(word, amount))
    return misread


def coding_vocabulary(config: Coding) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    low, high = _range(config)
    numbers = tuple(str(number) for number in range(low, high + 1))
    code = ("n", "=", "int(input())", ";", "print(", ")", "(", *OPERATIONS.values())
    words = ("task", "tests", "program", "then", "none", "->", ",", "good", "got", "nothing")
    return (*dict.fromkeys((*words, *get_args(Status), *OPERATIONS, *code, *numbers)),)


def _range(config: Coding) -> tuple[int, int]:
    """Smallest and largest number that a chain of operations can reach from an input."""
    low, high = 0, config.largest
    for _ in range(config.steps):
        reached = [
            Step(word, amount).apply(value)
            for word in OPERATIONS
            for amount in (1, config.largest)
            for value in (low, high)
        ]
        low, high = min(reached), max(reached)
    return low, high


WARM_START = WarmStart(coding_vocabulary, coding_demonstrations, NOISE)
