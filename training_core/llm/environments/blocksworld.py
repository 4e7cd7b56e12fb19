"""Blocksworld for two: the planner sees the goal piles and names one block's place; the executor sees the current
piles and moves one block.

Based on the Blocksworld of PettingLLMs (arXiv 2510.11062), with the information split between the roles: the planner
only sees which places are already correct, not which blocks are in the way; the executor does not see the goal.
Blocks are named a, b, c …; a state maps each block to what it stands on.

Demonstrations for the tiny model teach the language and part of the task. The planner names the next block half of the
time, otherwise any block's place in the goal. The executor mostly follows a possible plan; otherwise, half of the time, it
moves a block that is in the way to the table, else it makes any move. Some words are also replaced at random. Consistent
play is learnt in the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from pydantic import Field

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult, WarmStart
from training_core.llm.environments.task_environment import (
    PuzzleConfig,
    PuzzleEnvironment,
    Tasks,
    held_out,
    keyed_random,
)


class Blocksworld(PuzzleConfig):
    """Blocks to be piled up: the planner, which sees the goal, names a block and its target; the executor, which sees
    the piles, moves blocks.
    """

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    task_fields: ClassVar[tuple[str, ...]] = ("blocks",)
    type: Literal["blocksworld"] = "blocksworld"
    """Blocks in piles on a table."""
    blocks: int = Field(4, ge=2, le=12)
    """Number of blocks."""


TABLE = "table"
NAMES = "abcdefghijkl"
State = tuple[str, ...]
"""By block, in the order of NAMES: the block or the table that it stands on."""


@dataclass(frozen=True)
class Piles:
    """A task instance."""

    start: State
    goal: State

    @property
    def identity(self) -> str:
        """The whole instance."""
        return repr((self.start, self.goal))


def below(state: State, block: str) -> str:
    """The block or table below a block."""
    return state[NAMES.index(block)]


def clear(state: State, target: str) -> bool:
    """Whether a block may be put there: the table always has room, a block only if nothing is on it."""
    return target == TABLE or target not in state


def in_place(state: State, goal: State, block: str) -> bool:
    """Whether a block, and all blocks below it, are in their goal position."""
    while block != TABLE:
        if below(state, block) != below(goal, block):
            return False
        block = below(state, block)
    return True


def moves_left(state: State, goal: State) -> int:
    """Moves of the simple plan: put every misplaced block on the table, then build the piles from below.

    At most twice the minimum (Gupta and Nau 1992), and each of its moves decreases it by one.
    """
    astray = [block for block in NAMES[: len(state)] if not in_place(state, goal, block)]
    down = sum(below(state, block) != TABLE for block in astray)
    return down + sum(below(goal, block) != TABLE for block in astray)


def piles(state: State) -> list[list[str]]:
    """Blocks from the table upwards, pile by pile, in the order of the lowest blocks."""
    piles = [[block] for block in NAMES[: len(state)] if below(state, block) == TABLE]
    for pile in piles:
        while above := [block for block in NAMES[: len(state)] if below(state, block) == pile[-1]]:
            pile.append(above[0])
    return piles


def draw_piles(config: Blocksworld, random: Random, split: Split) -> Piles:
    """Two states of a split that are at least two moves apart."""
    while True:
        instance = Piles(_any_state(config.blocks, random), _any_state(config.blocks, random))
        if moves_left(instance.start, instance.goal) >= 2 and held_out(instance) == (split == "eval"):
            return instance


def _any_state(blocks: int, random: Random) -> State:
    """Blocks in a random order, each placed on the table or on a pile at random."""
    tops, stands = [TABLE], {}
    for block in random.sample(NAMES[:blocks], blocks):
        stands[block] = random.choice(tops)
        if stands[block] != TABLE:
            tops.remove(stands[block])
        tops.append(block)
    return tuple(stands[block] for block in NAMES[:blocks])


BLOCKSWORLD_TASKS = Tasks(draw_piles)


class BlocksworldEnvironment(PuzzleEnvironment[Blocksworld, Piles]):
    """One goal. The planner names a block and its place (`a b`: a belongs on b), then the executor moves (`c table`)."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")
    tasks = BLOCKSWORLD_TASKS

    def begin(self, instance: Piles) -> None:
        """Start on given piles."""
        self.instance = instance
        self.state = instance.start
        self.plan: tuple[str, ...] = ()

    def observe(self, role: str) -> str:
        """Planner: each block's place in the goal, from below, and whether it is in place. Executor: the piles, and the plan."""
        if role == "planner":
            goal = self.instance.goal
            return " ; ".join(
                f"{block} {below(goal, block)} {'done' if in_place(self.state, goal, block) else 'open'}"
                for pile in piles(goal)
                for block in pile
            )
        shown = " ; ".join(f"pile {' '.join(pile)}" for pile in piles(self.state))
        return f"{shown} ; plan {' '.join(self.plan) or 'none'}"

    def act(self, role: str, answer: str) -> StepResult:
        """Process a plan, or move a block."""
        words = after_thought(answer).split()
        return self._say(words) if role == "planner" else self._move(words)

    def _say(self, words: list[str]) -> StepResult:
        """Score a plan: correct if that block is next, that is, not in place while its goal support is."""
        self.plan = tuple(words) if self._are_places(words) else ()
        if not self.plan:
            return StepResult(self.config.refused_reward, 0.0, False, False, "no plan")
        gain = 1 if self._is_next(*self.plan) else -1
        local = self.shaped(self.left - gain)
        return StepResult(local, 0.0, False, False, f"plans {' '.join(words)}")

    def _is_next(self, block: str, target: str) -> bool:
        state, goal = self.state, self.instance.goal
        return (
            below(goal, block) == target
            and in_place(state, goal, target)
            and not in_place(state, goal, block)
        )

    def _move(self, words: list[str]) -> StepResult:
        self.turns += 1
        self.plan = ()
        if not self._are_places(words) or not self._possible(*words):
            return self.end_of_turn(self.config.refused_reward, "moves nothing")
        block, target = words
        index = NAMES.index(block)
        after = (*self.state[:index], target, *self.state[index + 1 :])
        local = self.config.step_reward + self.shaped(moves_left(after, self.instance.goal))
        self.state = after
        return self.end_of_turn(local, f"moves {block} to {target}")

    def _possible(self, block: str, target: str) -> bool:
        return clear(self.state, block) and clear(self.state, target) and below(self.state, block) != target

    def _are_places(self, words: list[str]) -> bool:
        """Whether the words are a block and another place."""
        known = [*NAMES[: len(self.state)], TABLE]
        return len(words) == 2 and all(word in known for word in words) and TABLE != words[0] != words[1]

    @property
    def left(self) -> int:
        """Remaining moves of the simple plan."""
        return moves_left(self.state, self.instance.goal)

    def board(self) -> dict[str, Any]:
        """The piles side by side, and those of the goal."""
        return {
            "kind": "piles",
            "piles": piles(self.state),
            "goal": piles(self.instance.goal),
            "placed": [
                block for block in NAMES[: len(self.state)] if in_place(self.state, self.instance.goal, block)
            ],
        }

    @property
    def title(self) -> str:
        """Blocks and moves."""
        return f"{len(self.state)} blocks, {self.whole} moves"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("built", f"{self.left} moves left")


def blocksworld_vocabulary(config: Blocksworld) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    return (*NAMES[: config.blocks], TABLE, "done", "open", "pile", "plan", "none", ";")


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
    random = keyed_random(seed, 2)
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
