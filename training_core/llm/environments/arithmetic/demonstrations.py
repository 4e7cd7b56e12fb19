r"""Noisy demonstrations of arithmetic for the warm start of the tiny base model.

They teach the language and part of the task. The tool agent copies the numbers with random operators. The reasoner
boxes any visible number; without a tool, a number near the result. With several turns and no tool it mostly boxes a
number of the problem, as after a wrong answer, and rarely one near the result. Choosing the number and adding are
learnt in the run.
"""

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from training_core.config.rollout import TRY_AGAIN
from training_core.errors import ModelError
from training_core.llm.environments.arithmetic.config import Arithmetic
from training_core.llm.environments.arithmetic.environment import NOTHING, TOOL, ArithmeticEnvironment
from training_core.llm.environments.arithmetic.problems import SPOKEN, Problem, draw_problem, spelled
from training_core.llm.environments.base import Demonstration, WarmStart
from training_core.seeding import keyed_seed
from training_core.types import Message

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
            f'the "tiny" model knows {MOST_NUMBERS} numbers by name, and these problems have results from {least} to {most}: '
            "lower environment.largest or environment.terms, or set policies.*.model to a Hugging Face folder or "
            "hub id"
        )
    numbers = tuple(str(number) for number in range(least, most + 1))
    spoken = f"What is ? Write as an expression . Not correct : The tool says {NOTHING} {TRY_AGAIN}".split()
    return tuple(dict.fromkeys((*numbers, *SPOKEN, *SPOKEN.values(), BOX, "}", *spoken)))


def arithmetic_demonstrations(config: Arithmetic, seed: int) -> Iterator[Demonstration]:
    """Endless: a tool agent's, two of a reasoner with a tool, one of a reasoner without, and so on.

    The second of the two gets a random number, so that all numbers occur.
    """
    random = Random(keyed_seed(seed, 2))
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
