"""Noisy demonstrations of plan_path for each role: what the tiny base model is warm-started on.

They teach the language and half of the idea. The planner's: name the axes on which the goal lies and how far, but not
which way: each axis is turned round by a coin. The executor's: walk along the axes of the plan, each turned round by a
coin too, and step round a wall. Some words are replaced at random besides. Play seldom arrives; which way is north, and
how to agree, is left to the run.

The agent that walks alone is shown both halves in one: moves along the axes of the goal, each turned round by one coin,
and a step round a wall. The scout of three names each side, blocked or free, right three times in four.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random

from training_core.config.environments import PlanPath, PlanPathSingle, PlanPathTrio
from training_core.llm.environments.plan_path import PlanPathEnvironment, draw_grid
from training_core.llm.environments.plan_path_teams import (
    PlanPathSingleEnvironment,
    PlanPathTrioEnvironment,
)
from training_core.llm.environments.plan_path_wording import COMPASS, IN_COMPASS, MOVES, OPPOSITE, STUCK
from training_core.seeding import keyed_seed

Demonstration = tuple[str, str]
"""What a role sees, and what it might say."""

NOISE = 0.2
"""Probability that a demonstrated word is replaced by a random one."""
OPEN_LEFT_OUT = 0.8
"""Share of the states that are left out where nothing blocks the way: the others are the hard ones."""
STATES_PER_GRID = 8
TURNED = 0.5
"""Probability that the planner turns an axis round."""
MISREAD = 0.5
"""Probability that the executor does."""
SEEN_WELL = 0.75
"""Probability that the scout tells a side as it is."""


def plan_path_demonstrations(config: PlanPath, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = PlanPathEnvironment(config, seed)
    for meant, read in _hard_states(environment, random):
        yield environment.observe("planner"), _planned(environment, random)
        environment.plan = tuple(IN_COMPASS[move] for move in meant)
        yield environment.observe("executor"), _noisy(_follow(environment, read, random), list(MOVES), random)


def plan_path_single_demonstrations(config: PlanPathSingle, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer of the walker."""
    random = Random(keyed_seed(seed, 2))
    environment = PlanPathSingleEnvironment(config, seed)
    for _, _ in _hard_states(environment, random):
        read = _turned(_towards_goal(environment, random), TURNED, random)
        yield environment.observe("walker"), _noisy(_follow(environment, read, random), list(MOVES), random)


def plan_path_trio_demonstrations(config: PlanPathTrio, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer: planner, scout and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = PlanPathTrioEnvironment(config, seed)
    for meant, read in _hard_states(environment, random):
        yield environment.observe("planner"), _planned(environment, random)
        walls = [word for word in MOVES if not environment.grid.free(environment.next_cell(word))]
        told = [word for word in MOVES if (word in walls) == (random.random() < SEEN_WELL)]
        yield environment.observe("scout"), _noisy(told, list(MOVES), random) or "none"
        environment.plan = tuple(IN_COMPASS[move] for move in meant)
        environment.report = tuple(walls)
        yield environment.observe("executor"), _noisy(_follow(environment, read, random), list(MOVES), random)


def _hard_states(environment: PlanPathEnvironment, random: Random) -> Iterator[tuple[list[str], list[str]]]:
    """Put the environment in one state after another, mostly such where something blocks the way.

    Yields the moves that a plan means there, and how an executor that may misread it takes them.
    """
    for number in count():
        if number % STATES_PER_GRID == 0:
            environment.start(draw_grid(environment.config, random, "train"), "demonstration")
        _random_state(environment, random)
        meant = _random_plan(environment, random)
        read = _turned(meant, MISREAD, random)
        if environment.grid.free(environment.next_cell(read[0])) and random.random() < OPEN_LEFT_OUT:
            continue
        yield meant, read


def _planned(environment: PlanPathEnvironment, random: Random) -> str:
    """What the planner says: the goal's axes, each turned round by a coin, in compass words."""
    said = _turned(_towards_goal(environment, random), TURNED, random)
    return _noisy([IN_COMPASS[move] for move in said], list(COMPASS), random)


def _random_state(environment: PlanPathEnvironment, random: Random) -> None:
    """Put the agent anywhere on the grid, with a last move as if it had walked."""
    environment.plan = ()
    environment.cell = random.choice(
        [cell for cell in environment.reachable if cell != environment.grid.goal]
    )
    came = [word for word in MOVES if environment.grid.free(environment.next_cell(OPPOSITE[word]))]
    environment.last = (random.choice(came),) if came and random.random() < 0.75 else ()
    if random.random() < 0.25:
        environment.last += (STUCK,)


def _towards_goal(environment: PlanPathEnvironment, random: Random) -> list[str]:
    """Moves along both axes, one after the other."""
    down = environment.grid.goal[0] - environment.cell[0]
    right = environment.grid.goal[1] - environment.cell[1]
    across = ["right" if right > 0 else "left"] * abs(right)
    along = ["down" if down > 0 else "up"] * abs(down)
    moves = across + along if random.random() < 0.5 else along + across
    return moves[: environment.config.moves_per_turn]


def _turned(moves: list[str], probability: float, random: Random) -> list[str]:
    """The same moves, each axis turned round with this probability."""
    vertical, horizontal = random.random() < probability, random.random() < probability
    return [
        OPPOSITE[move] if (vertical if move in ("up", "down") else horizontal) else move for move in moves
    ]


def _random_plan(environment: PlanPathEnvironment, random: Random) -> list[str]:
    """Mostly a sensible plan, sometimes any moves: the executor must have seen both."""
    if random.random() < 0.7:
        return _towards_goal(environment, random)
    length = random.randint(1, environment.config.moves_per_turn)
    return [random.choice(list(MOVES)) for _ in range(length)]


def _follow(environment: PlanPathEnvironment, plan: list[str], random: Random) -> list[str]:
    """The plan as far as it is open; a blocked first move is stepped round, without going back."""
    if environment.grid.free(environment.next_cell(plan[0])):
        return plan
    free = [move for move in MOVES if environment.grid.free(environment.next_cell(move))]
    back = {OPPOSITE[word] for word in environment.last if word != STUCK}
    aside = [move for move in free if move not in back and move != OPPOSITE[plan[0]]]
    return [random.choice(aside or free or list(MOVES)), plan[0]][: environment.config.moves_per_turn]


def _noisy(words: Sequence[str], vocabulary: Sequence[str], random: Random) -> str:
    return " ".join(random.choice(vocabulary) if random.random() < NOISE else word for word in words)
