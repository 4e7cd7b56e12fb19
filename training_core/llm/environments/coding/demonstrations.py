"""Noisy demonstrations of coding for both roles, for the warm start of the tiny base model.

They teach the grammar of programs and of tests; the meaning is learnt in the run: operation and number are each wrong
with probability 1/2, and so is a test's output.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import get_args

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.coding.config import Coding
from training_core.llm.environments.coding.problems import (
    OPERATIONS,
    Step,
    applied,
    draw_steps,
    program,
    stated,
)
from training_core.sandbox.run import Status
from training_core.seeding import keyed_seed

NOISE = 0.5
"""Probability that an operation, a number or an output is replaced."""


def coding_demonstrations(config: Coding, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, tester and coder in turn."""
    random = Random(keyed_seed(seed, 2))
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
