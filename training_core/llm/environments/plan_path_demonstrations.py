"""Noisy demonstrations of plan_path for both roles: what the tiny base model is warm-started on.

They teach the language and half of the idea. The executor's: follow the plan, step round a wall, with many words
replaced at random. The planner's: name the axes on which the goal lies and how far, but not which way: the signs are
coin flips. Sampled play seldom arrives; which way to point, and how to agree, is left to the run.
"""

from collections.abc import Iterator
from random import Random

from training_core.config.environments import PlanPath
from training_core.llm.environments.plan_path import MOVES, OPPOSITE, STUCK, PlanPathEnvironment, draw_grid
from training_core.seeding import keyed_seed

Demonstration = tuple[str, str]
"""What a role sees, and what it might say."""

NOISE = 0.35
"""Probability that a demonstrated word is replaced by a random direction."""
OPEN_LEFT_OUT = 0.8
"""Share of the executor's demonstrations that are left out where nothing blocks the plan: the others are the hard ones."""


def plan_path_demonstrations(config: PlanPath, seed: int) -> Iterator[Demonstration]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = PlanPathEnvironment(config, seed)
    while True:
        _random_state(environment, random)
        yield environment.observe("planner"), _noisy(_undirected(_towards_goal(environment, random), random), random)
        environment.plan = _random_plan(environment, random)
        if environment.grid.free(environment.next_cell(environment.plan[0])) and random.random() < OPEN_LEFT_OUT:
            continue
        yield environment.observe("executor"), _noisy(_follow(environment, random), random)


def _random_state(environment: PlanPathEnvironment, random: Random) -> None:
    """Put the agent anywhere on a fresh grid, with a last move as if it had walked."""
    environment.start(draw_grid(environment.config, random), "demonstration")
    cells = [cell for cell in environment.reachable if cell != environment.grid.goal]
    environment.cell = random.choice(cells)
    came = [word for word in MOVES if environment.grid.free(environment.next_cell(OPPOSITE[word]))]
    environment.last = (random.choice(came),) if came and random.random() < 0.75 else ()
    if random.random() < 0.25:
        environment.last += (STUCK,)


def _towards_goal(environment: PlanPathEnvironment, random: Random) -> list[str]:
    down = environment.grid.goal[0] - environment.cell[0]
    right = environment.grid.goal[1] - environment.cell[1]
    across = ["right" if right > 0 else "left"] * abs(right)
    along = ["down" if down > 0 else "up"] * abs(down)
    words = across + along if random.random() < 0.5 else along + across
    return words[: environment.config.moves_per_turn]


def _undirected(words: list[str], random: Random) -> list[str]:
    """The same words, each axis turned round or not by a coin."""
    turned = {word: random.random() < 0.5 for word in words}
    return [OPPOSITE[word] if turned[word] else word for word in words]


def _random_plan(environment: PlanPathEnvironment, random: Random) -> tuple[str, ...]:
    """Mostly a sensible plan, sometimes any words: the executor must have seen both."""
    if random.random() < 0.7:
        return tuple(_towards_goal(environment, random))
    length = random.randint(1, environment.config.moves_per_turn)
    return tuple(random.choice(list(MOVES)) for _ in range(length))


def _follow(environment: PlanPathEnvironment, random: Random) -> list[str]:
    """The plan as far as it is open; a blocked first word is stepped round, without going back."""
    plan = list(environment.plan)
    if environment.grid.free(environment.next_cell(plan[0])):
        return plan
    open_words = [word for word in MOVES if environment.grid.free(environment.next_cell(word))]
    back = {OPPOSITE[word] for word in environment.last if word != STUCK}
    aside = [word for word in open_words if word not in back and word != OPPOSITE[plan[0]]]
    return [random.choice(aside or open_words or list(MOVES)), plan[0]][: environment.config.moves_per_turn]


def _noisy(words: list[str], random: Random) -> str:
    return " ".join(random.choice(list(MOVES)) if random.random() < NOISE else word for word in words)
