"""Noisy demonstrations of plan_path for each role, for the warm start of the tiny base model.

They teach the language and part of the task. The planner names the axes and distances of the goal, but not the
direction: each axis is reversed at random. The executor walks along the axes of the plan, each also reversed at
random, and steps around a wall. Some words are also replaced at random. Play rarely reaches the goal; the directions,
and an agreement on them, are learnt in the run.

The single agent gets both parts: moves along the axes of the goal, each reversed at random, and a step around a wall.
The scout of three agents reports each side, blocked or free, correctly with probability 3/4.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.plan_path.game import (
    PlanPath,
    PlanPathEnvironment,
    PlanPathSingle,
    PlanPathSingleEnvironment,
    PlanPathTrio,
    PlanPathTrioEnvironment,
    draw_grid,
    plan_path_vocabulary,
)
from training_core.llm.environments.plan_path.wording import COMPASS, IN_COMPASS, MOVES, OPPOSITE, STUCK
from training_core.llm.environments.task_environment import keyed_random

Demonstration = tuple[str, str]
"""A role's observation, and a possible answer."""

NOISE = 0.2
"""Probability that a demonstrated word is replaced by a random one."""
OPEN_LEFT_OUT = 0.8
"""Share of states without an obstacle that are omitted: the others are harder."""
STATES_PER_GRID = 8
TURNED = 0.5
"""Probability that the planner reverses an axis."""
MISREAD = 0.5
"""Probability that the executor does."""
SEEN_WELL = 0.75
"""Probability that the scout reports a side correctly."""


def plan_path_demonstrations(config: PlanPath, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = keyed_random(seed, 2)
    environment = PlanPathEnvironment(config, seed)
    for meant, read in _hard_states(environment, random):
        yield environment.observe("planner"), _planned(environment, random)
        environment.plan = tuple(IN_COMPASS[move] for move in meant)
        yield environment.observe("executor"), _noisy(_follow(environment, read, random), list(MOVES), random)


def plan_path_single_demonstrations(config: PlanPathSingle, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer of the walker."""
    random = keyed_random(seed, 2)
    environment = PlanPathSingleEnvironment(config, seed)
    for _, _ in _hard_states(environment, random):
        read = _turned(_towards_goal(environment, random), TURNED, random)
        yield environment.observe("walker"), _noisy(_follow(environment, read, random), list(MOVES), random)


def plan_path_trio_demonstrations(config: PlanPathTrio, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer: planner, scout and executor in turn."""
    random = keyed_random(seed, 2)
    environment = PlanPathTrioEnvironment(config, seed)
    for meant, read in _hard_states(environment, random):
        yield environment.observe("planner"), _planned(environment, random)
        walls = [word for word in MOVES if not environment.grid.free(environment.next_cell(word))]
        reported = [word for word in MOVES if (word in walls) == (random.random() < SEEN_WELL)]
        yield environment.observe("scout"), _noisy(reported, list(MOVES), random) or "none"
        environment.plan = tuple(IN_COMPASS[move] for move in meant)
        environment.report = tuple(walls)
        yield environment.observe("executor"), _noisy(_follow(environment, read, random), list(MOVES), random)


def _hard_states(environment: PlanPathEnvironment, random: Random) -> Iterator[tuple[list[str], list[str]]]:
    """Set the environment to a series of states, mostly with an obstacle.

    Yields the moves of a plan in the state, and the moves of an executor that may misread it.
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
    """The planner's answer: the goal's axes, each reversed at random, in compass words."""
    moves = _turned(_towards_goal(environment, random), TURNED, random)
    return _noisy([IN_COMPASS[move] for move in moves], list(COMPASS), random)


def _random_state(environment: PlanPathEnvironment, random: Random) -> None:
    """Put the agent anywhere on the grid, with a random last move."""
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
    """The moves, with each axis reversed with this probability."""
    vertical, horizontal = random.random() < probability, random.random() < probability
    return [
        OPPOSITE[move] if (vertical if move in ("up", "down") else horizontal) else move for move in moves
    ]


def _random_plan(environment: PlanPathEnvironment, random: Random) -> list[str]:
    """Mostly a sensible plan, sometimes random moves, so that the executor sees both."""
    if random.random() < 0.7:
        return _towards_goal(environment, random)
    length = random.randint(1, environment.config.moves_per_turn)
    return [random.choice(list(MOVES)) for _ in range(length)]


def _follow(environment: PlanPathEnvironment, plan: list[str], random: Random) -> list[str]:
    """The plan up to the first wall; a blocked first move is replaced by a step around it, without going back."""
    if environment.grid.free(environment.next_cell(plan[0])):
        return plan
    free = [move for move in MOVES if environment.grid.free(environment.next_cell(move))]
    back = {OPPOSITE[word] for word in environment.last if word != STUCK}
    aside = [move for move in free if move not in back and move != OPPOSITE[plan[0]]]
    return [random.choice(aside or free or list(MOVES)), plan[0]][: environment.config.moves_per_turn]


def _noisy(words: Sequence[str], vocabulary: Sequence[str], random: Random) -> str:
    return " ".join(random.choice(vocabulary) if random.random() < NOISE else word for word in words)


DUO = WarmStart(plan_path_vocabulary, plan_path_demonstrations, NOISE)
SINGLE = WarmStart(plan_path_vocabulary, plan_path_single_demonstrations, NOISE)
TRIO = WarmStart(plan_path_vocabulary, plan_path_trio_demonstrations, NOISE)
