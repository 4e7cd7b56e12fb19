"""Arithmetic for a tool agent and a reasoning agent, for a proposer and a checker, or for reasoning agents alone.

Based on the math tasks of PettingLLMs (arXiv 2510.11062), where one agent writes code that is run and another
reasons: here `tool` writes an expression, a calculator evaluates it, and the other roles (`reasoner`) see the result
and answer. Instead of a tool agent, the role `environment.proposer` may propose a result, which the other roles
confirm or correct. After a wrong answer the team tries again, until its turns are used up; success in a role's turn t
gives turn_discount^(t - 1): 1 in the first turn. `environment.wording` selects the form of observations and answers.

Demonstrations for the tiny model teach the language and part of the task. The tool agent copies the numbers with random
operators. The reasoner boxes any visible number; without a tool, a number near the result. With several turns and no tool
it mostly boxes a number of the problem, as after a wrong answer, and rarely one near the result. Choosing the number and
adding are learnt in the run.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection, Wording
from training_core.config.effects import (
    Effects,
    both,
    gives_tasks,
    local_reward,
    only_if,
    team_reward,
    unless,
)
from training_core.errors import ModelError
from training_core.llm.answers import after_thought
from training_core.llm.environments.base import TRY_AGAIN, Demonstration, Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import TaskEnvironment, Tasks, held_out, keyed_random
from training_core.types import Message

_divides = only_if(lambda at: "/" in at.section.operators, 'only with "/" among the operators')
_has_tools = only_if(
    lambda at: {"tool", at.section.proposer} & set(at.config.team.roles),
    "the team has no role tool, and environment.proposer is empty",
)


class Arithmetic(EnvironmentSection):
    """A sum to solve: a reasoner answers, by itself, after a tool agent with a calculator, or after a proposer."""

    roles: ClassVar[tuple[str, ...]] = ("tool", "reasoner")
    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("proposer",)
    task_fields: ClassVar[tuple[str, ...]] = ("terms", "largest", "operators", "wording")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "proposer")
    local_reward_fields: ClassVar[tuple[str, ...]] = ("format_reward",)
    team_reward_fields: ClassVar[tuple[str, ...]] = ("right_reward",)
    effects: ClassVar[Effects] = {
        "fractions": both(_divides, gives_tasks),
        "turn_discount": both(unless("max_turns", 1), team_reward),
        "tool_reward": both(_has_tools, local_reward),
    }
    type: Literal["arithmetic"] = "arithmetic"
    """Generated arithmetic problems, answers compared exactly."""
    wording: Wording = "words"
    """words: the tiny model's few words, answers read strictly. sentences: plain English for pretrained models, answers read leniently."""
    proposer: str = ""
    """Role whose answers are proposals: later roles see them and decide. Empty: every role except `tool` decides."""
    terms: int = Field(2, ge=2, le=8)
    """Numbers in a problem."""
    largest: int = Field(9, ge=1, le=1_000_000)
    """Largest number in a problem; the smallest is 0."""
    operators: tuple[Literal["+", "-", "*", "/"], ...] = Field(("+", "-"), min_length=1)
    """Operators between the numbers."""
    fractions: bool = False
    """Whether results may be fractions; otherwise problems without an integer result are not generated."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends without success; a wrong answer is reported to the team, which tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a correct answer at turn t gets right_reward x gamma^(t - 1), so right_reward in the first turn."""
    right_reward: float = 1.0
    """Team reward for a correct answer."""
    tool_reward: float = 1.0
    """Local reward of the role `tool` for an expression whose value is the correct answer, and of the proposer for a correct proposal."""
    format_reward: float = -0.1
    """Local reward for an answer without a number (in a box, with wording = "words"), or an expression that cannot be evaluated."""

    @classmethod
    def fixed_roles(cls, section: Mapping[str, Any]) -> tuple[str, ...]:
        """`tool` gets the calculator."""
        return ("tool",)


SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
"""Name of an operator in a problem."""
MOST_LETTERS = 200
"""Maximum characters of an expression for the calculator."""
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Problem:
    """A task instance: integers and the operators between them, multiplication and division first."""

    expression: str
    """The expression for the calculator, parts separated by spaces."""
    value: Fraction

    @property
    def identity(self) -> str:
        """The expression."""
        return self.expression

    @property
    def words(self) -> str:
        """The problem as shown: operators by name."""
        return " ".join(SPOKEN.get(part, part) for part in self.expression.split())


def calculate(expression: str) -> Fraction | None:
    """The exact value of numbers, + - * / and brackets; None for anything else, and for a division by zero.

    No code is executed: the syntax tree is walked, and powers, which could grow without limit, are not supported.
    """
    if len(expression) > MOST_LETTERS:
        return None
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    """Raises ValueError for anything but arithmetic."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Fraction(str(node.value))
    raise ValueError("no arithmetic")


def spelled(value: Fraction) -> str:
    """A number as text, parts separated by spaces: 19, -3, 3 / 4."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator} / {value.denominator}"


def draw_problem(config: Arithmetic, random: Random, split: Split) -> Problem:
    """A problem of a split that has a value, which is an integer unless fractions are enabled."""
    while True:
        parts = [str(random.randint(0, config.largest))]
        for _ in range(config.terms - 1):
            parts += [random.choice(config.operators), str(random.randint(0, config.largest))]
        value = calculate(" ".join(parts))
        if value is None or (value.denominator != 1 and not config.fractions):
            continue
        problem = Problem(" ".join(parts), value)
        if held_out(problem) == (split == "eval"):
            return problem


ARITHMETIC_TASKS = Tasks(draw_problem)


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
    tasks = ARITHMETIC_TASKS

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
        from training_core.llm.rewards.math import as_fraction, final_answer  # many patterns to compile

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


ARITHMETIC_NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one; half of it with several turns."""
ALONE = 12
"""Demonstrations without a tool per three with one, with several turns: sums are harder than reading."""
NEAR = 1
"""Maximum offset of computed results, drawn uniformly."""
ADDED = 0.25
"""With several turns: probability that a reasoner without a tool adds at all."""
READ = 0.6
"""Probability that the reasoner boxes the tool's result, rather than a number of the problem."""
MOST_NUMBERS = 4096
"""Number of numbers in the tiny model's vocabulary."""
BOX = "\\boxed{"


def arithmetic_vocabulary(config: Arithmetic) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order. Raises ModelError for too many numbers."""
    least, most = _range(config)
    if most - least >= MOST_NUMBERS:
        raise ModelError(
            f'the "tiny" model knows {MOST_NUMBERS} numbers by name, and these problems have results from {least} to {most}:',
            remedy="lower environment.largest or environment.terms, or set policies.*.model to a Hugging Face folder or hub id",
        )
    numbers = tuple(str(number) for number in range(least, most + 1))
    spoken = f"What is ? Write as an expression . Not correct : The tool says {NOTHING} {TRY_AGAIN}".split()
    return tuple(dict.fromkeys((*numbers, *SPOKEN, *SPOKEN.values(), BOX, "}", *spoken)))


def arithmetic_demonstrations(config: Arithmetic, seed: int) -> Iterator[Demonstration]:
    """Endless: a tool agent's, two of a reasoner with a tool, one of a reasoner without, and so on.

    The second of the two gets a random number, so that all numbers occur.
    """
    random = keyed_random(seed, 2)
    environment = ArithmeticEnvironment(config, seed)
    while True:
        environment.start(draw_problem(config, random, "train"), "demonstration")
        numbers = _numbers(environment.problem)
        expression = _any_operators(environment.problem, config, random)
        yield environment.observe(TOOL), _noisy(expression, config, random)
        for answer in (expression, str(random.randint(*_range(config)))):
            environment.act(TOOL, answer)
            shown = environment.result if random.random() < READ else random.choice(numbers)
            yield environment.observe("reasoner"), _boxed(shown, config, random)
        for _ in range(1 if config.max_turns == 1 else ALONE):
            environment.start(draw_problem(config, random, "train"), "demonstration")
            yield (
                _tries(environment, config, random),
                _boxed(_alone(environment.problem, config, random), config, random),
            )


def _any_operators(problem: Problem, config: Arithmetic, random: Random) -> str:
    parts = problem.expression.split()
    return " ".join(random.choice(config.operators) if part in SPOKEN else part for part in parts)


def _tries(
    environment: ArithmeticEnvironment, config: Arithmetic, random: Random
) -> str | tuple[Message, ...]:
    """The observation of a reasoner without a tool: the problem, and with several turns also wrong answers."""
    tries = random.randrange(config.max_turns)
    shown = [
        number for number in _numbers(environment.problem) if number != spelled(environment.problem.value)
    ]
    wrong = [random.choice(shown) for _ in range(tries)] if shown else []
    if not wrong or random.random() < 0.25:
        environment.wrong = tuple(wrong)
        return environment.observe("reasoner")
    messages: list[Message] = [{"role": "user", "content": environment.observe("reasoner")}]
    for answer in wrong:
        messages += [
            {"role": "assistant", "content": f"{BOX} {answer} }}"},
            {"role": "user", "content": TRY_AGAIN},
        ]
    return tuple(messages)


def _numbers(problem: Problem) -> list[str]:
    return problem.expression.split()[::2]


def _alone(problem: Problem, config: Arithmetic, random: Random) -> str:
    """The boxed number of a reasoner without a tool."""
    if config.max_turns == 1 or random.random() < ADDED:
        return _near(problem, random)
    return random.choice(_numbers(problem))


def _near(problem: Problem, random: Random) -> str:
    return spelled(problem.value + random.randint(-NEAR, NEAR))


def _boxed(number: str, config: Arithmetic, random: Random) -> str:
    """The number in a box, sometimes replaced by another."""
    if random.random() < _noise(config):
        number = spelled(Fraction(random.randint(*_range(config))))
    return f"{BOX} {number} }}"


def _noisy(expression: str, config: Arithmetic, random: Random) -> str:
    """An expression, sometimes with another number."""
    words = expression.split()
    return " ".join(
        str(random.randint(0, config.largest))
        if word not in SPOKEN and random.random() < _noise(config)
        else word
        for word in words
    )


def _noise(config: Arithmetic) -> float:
    return ARITHMETIC_NOISE if config.max_turns == 1 else ARITHMETIC_NOISE / 2


def _range(config: Arithmetic) -> tuple[int, int]:
    """Smallest and largest integer of a result or a part of one, including offsets in demonstrations."""
    grows = any(sign in config.operators for sign in "*/")
    most = config.largest**config.terms if grows else config.largest * config.terms
    return (-most if "-" in config.operators else 0) - NEAR, most + NEAR


WARM_START = WarmStart(arithmetic_vocabulary, arithmetic_demonstrations, ARITHMETIC_NOISE)
