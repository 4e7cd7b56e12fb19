"""Noisy demonstrations of Blocksworld for both roles, for the warm start of the tiny base model.

They teach the language and part of the task. The planner names the next block half of the time, otherwise any block's
place in the goal. The executor mostly follows a possible plan; otherwise, half of the time, it moves a block that is
in the way to the table, else it makes any move. Some words are also replaced at random. Consistent play is learnt in
the run.
"""

from collections.abc import Iterator
from random import Random

from training_core.llm.environments.base import WarmStart
from training_core.llm.environments.blocksworld.config import Blocksworld
from training_core.llm.environments.blocksworld.game import (
    NAMES,
    TABLE,
    BlocksworldEnvironment,
    State,
    below,
    blocksworld_vocabulary,
    clear,
    draw_piles,
    in_place,
    piles,
)
from training_core.seeding import keyed_seed

NOISE = 0.1
"""Probability that a demonstrated word is replaced by a random one."""
WELL_SAID = 0.5
"""Minimum share of plans whose block is next."""
OBEYED = 0.8
"""Share of possible plans that the executor carries out."""
CLEARED = 0.5
"""Share of the other plans for which it moves a block that is in the way."""


def blocksworld_demonstrations(config: Blocksworld, seed: int) -> Iterator[tuple[str, str]]:
    """Endless pairs of observation and answer, planner and executor in turn."""
    random = Random(keyed_seed(seed, 2))
    environment = BlocksworldEnvironment(config, seed)
    while True:
        environment.start(draw_piles(config, random, "train"), "demonstration")
        for _ in range(random.randint(0, config.blocks)):
            environment.state = _carried_on(environment.state, environment.instance.goal, random)
        plan = _plan(environment.state, environment.instance.goal, random)
        yield environment.observe("planner"), _noisy(plan, config, random)
        environment.plan = plan
        yield environment.observe("executor"), _noisy(_move(environment.state, plan, random), config, random)


def _carried_on(state: State, goal: State, random: Random) -> State:
    """The state after one move: to the place in the goal if possible, otherwise anywhere."""
    free = [block for block in NAMES[: len(state)] if clear(state, block)]
    block = random.choice(free)
    target = below(goal, block)
    if not clear(state, target) or target == block:
        target = TABLE
    index = NAMES.index(block)
    return (*state[:index], target, *state[index + 1 :])


def _plan(state: State, goal: State, random: Random) -> tuple[str, str]:
    """The place in the goal of a next block, or of any block."""
    blocks = list(NAMES[: len(state)])
    ready = [
        block
        for block in blocks
        if not in_place(state, goal, block) and in_place(state, goal, below(goal, block))
    ]
    block = random.choice(ready if ready and random.random() < WELL_SAID else blocks)
    return block, below(goal, block)


def _move(state: State, plan: tuple[str, str], random: Random) -> tuple[str, str]:
    """The plan, or moving a block in its way to the table, or any possible move."""
    free = [block for block in NAMES[: len(state)] if clear(state, block)]
    possible = [
        (block, target)
        for block in free
        for target in [*free, TABLE]
        if target not in (block, below(state, block))
    ]
    if plan in possible:
        return plan if random.random() < OBEYED else random.choice(possible)
    in_the_way = [pile[-1] for pile in piles(state) if set(plan) & set(pile[:-1])]
    if in_the_way and random.random() < CLEARED:
        return random.choice(in_the_way), TABLE
    return random.choice(possible)


def _noisy(words: tuple[str, str], config: Blocksworld, random: Random) -> str:
    vocabulary = [*NAMES[: config.blocks], TABLE]
    return " ".join(random.choice(vocabulary) if random.random() < NOISE else word for word in words)


WARM_START = WarmStart(blocksworld_vocabulary, blocksworld_demonstrations, NOISE)
