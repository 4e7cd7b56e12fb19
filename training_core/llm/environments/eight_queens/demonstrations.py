"""Noisy demonstrations of eight queens for both roles, for the warm start of the tiny base model.

They teach the language and part of the task. The planner picks an attacked queen, not the one moved last; half of the
time the one with the best move. The executor mostly picks a square with the fewest attackers, otherwise any.
Consistent play is learnt in the run.
"""

from collections.abc import Iterator
from random import Random

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.eight_queens.config import EightQueens
from training_core.llm.environments.eight_queens.game import (
    EightQueensEnvironment,
    attackers,
    draw_position,
    eight_queens_vocabulary,
)
from training_core.seeding import keyed_seed

NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one of its kind."""
WELL_PICKED = 0.5
"""Share of the demonstrated picks of a row with the best move."""
WELL_MOVED = 0.7
"""Share of the demonstrated moves to a square with the fewest attackers."""
SETTLED = 0.5
"""Share of boards after some good moves; initial boards alone would not cover late states."""


def eight_queens_demonstrations(config: EightQueens, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = EightQueensEnvironment(config, seed)
    while True:
        environment.start(draw_position(config, random, "train"), "demonstration")
        environment.last = random.choice([None, *range(config.size)])
        if random.random() < SETTLED:
            _settle(environment, random)
        row = _row(environment, random)
        yield environment.observe("planner"), _noisy("r", row, config.size, random)
        environment.row = row
        yield (
            environment.observe("executor"),
            _noisy("c", _column(environment, row, random), config.size, random),
        )


def _settle(environment: EightQueensEnvironment, random: Random) -> None:
    """Move a few queens to the squares with the fewest attackers."""
    for _ in range(random.randint(1, environment.config.size)):
        row = random.randrange(environment.config.size)
        columns = environment.columns
        best = min(range(len(columns)), key=lambda column: attackers(columns, row, column))
        environment.columns = (*columns[:row], best, *columns[row + 1 :])


def _row(environment: EightQueensEnvironment, random: Random) -> int:
    """A row whose queen is attacked, not the one moved last."""
    columns = environment.columns
    rows = [row for row in range(len(columns)) if row != environment.last]
    attacked = [row for row in rows if attackers(columns, row, columns[row])]
    worth = {row: attackers(columns, row, columns[row]) - _fewest(columns, row) for row in attacked}
    best = [row for row in attacked if worth[row] == max(worth.values())]
    return random.choice((best if random.random() < WELL_PICKED else attacked) or rows)


def _fewest(columns: tuple[int, ...], row: int) -> int:
    """Attackers of the best other square of a row."""
    return min(attackers(columns, row, column) for column in range(len(columns)) if column != columns[row])


def _column(environment: EightQueensEnvironment, row: int, random: Random) -> int:
    columns = environment.columns
    others = [column for column in range(len(columns)) if column != columns[row]]
    best = [column for column in others if attackers(columns, row, column) == _fewest(columns, row)]
    return random.choice(best if random.random() < WELL_MOVED else others)


def _noisy(axis: str, number: int, size: int, random: Random) -> str:
    return f"{axis}{(random.randrange(size) if random.random() < NOISE else number) + 1}"


WARM_START = WarmStart(eight_queens_vocabulary, eight_queens_demonstrations, NOISE)
