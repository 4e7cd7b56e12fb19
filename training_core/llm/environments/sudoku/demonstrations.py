"""Noisy demonstrations of Sudoku for both roles, for the warm start of the tiny base model.

They teach the language and part of the task. The planner names any empty square. The executor writes a digit that is
not in the row, ignoring column and box. Some words are also replaced at random. Choosing a square with one legal
digit, and checking column and box, is learnt in the run.
"""

from collections.abc import Iterator
from random import Random

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.sudoku.config import Sudoku
from training_core.llm.environments.sudoku.game import SudokuEnvironment, square_name, sudoku_vocabulary
from training_core.llm.environments.sudoku.puzzles import Puzzle, draw_puzzle, legal_digits, lines
from training_core.seeding import keyed_seed

NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one of its kind."""
STATES_PER_PUZZLE = 8
REFUSED = 0.25
"""Share of the states in which something was refused before."""


def sudoku_demonstrations(config: Sudoku, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = SudokuEnvironment(config, seed)
    while True:
        puzzle = draw_puzzle(config, random, "train")
        for _ in range(STATES_PER_PUZZLE):
            environment.start(puzzle, "demonstration")
            empty = _random_state(environment, puzzle, random)
            square = random.choice(empty)
            yield environment.observe("planner"), _pointed(square, config.size, random)
            environment.square = square
            yield environment.observe("executor"), _written(environment, square, random)


def _random_state(environment: SudokuEnvironment, puzzle: Puzzle, random: Random) -> list[int]:
    """Fill some holes, most of them correctly; return the remaining squares."""
    empty = [square for square, digit in enumerate(puzzle.given) if not digit]
    random.shuffle(empty)
    digits = list(puzzle.given)
    for square in empty[: random.randrange(len(empty))]:
        legal = legal_digits(digits, square, puzzle.size)
        wrong = legal and random.random() < 0.1
        digits[square] = random.choice(legal) if wrong else puzzle.solution[square]
    environment.digits = tuple(digits)
    left = [square for square, digit in enumerate(digits) if not digit]
    if random.random() < REFUSED:
        square = random.choice(left)
        legal = legal_digits(digits, square, puzzle.size)
        illegal = [digit for digit in range(1, puzzle.size + 1) if digit not in legal]
        environment.refused = ((square, random.choice(illegal)),) if illegal else ()
    return left


def _pointed(square: int, size: int, random: Random) -> str:
    return square_name(random.randrange(size * size) if random.random() < NOISE else square, size)


def _written(environment: SudokuEnvironment, square: int, random: Random) -> str:
    size = environment.puzzle.size
    row = {environment.digits[other] for other in lines(size)[square][0]}
    fits = [digit for digit in range(1, size + 1) if digit not in row]
    return str(random.randint(1, size) if random.random() < NOISE else random.choice(fits))


WARM_START = WarmStart(sudoku_vocabulary, sudoku_demonstrations, NOISE)
