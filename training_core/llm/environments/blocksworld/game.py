"""Blocksworld for two: the planner sees the goal piles and names one block's place; the executor sees the current
piles and moves one block.

Based on the Blocksworld of PettingLLMs (arXiv 2510.11062), with the information split between the roles: the planner
only sees which places are already correct, not which blocks are in the way; the executor does not see the goal.
Blocks are named a, b, c …; a state maps each block to what it stands on.
"""

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from training_core.llm.answers import after_thought
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.blocksworld.config import Blocksworld
from training_core.llm.environments.splits import Tasks, held_out
from training_core.llm.environments.task_environment import PuzzleEnvironment

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

    def draw(self, task: int, split: Split) -> Piles:
        """The instance of a task number."""
        return BLOCKSWORLD_TASKS.instance(self.config, self.seed, task, split)

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
        local = self._shaped(self._left(self.state) - gain)
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
            return self._end_of_turn(self.config.refused_reward, "moves nothing")
        block, target = words
        index = NAMES.index(block)
        after = (*self.state[:index], target, *self.state[index + 1 :])
        local = self.config.step_reward + self._shaped(self._left(after))
        self.state = after
        return self._end_of_turn(local, f"moves {block} to {target}")

    def _possible(self, block: str, target: str) -> bool:
        return clear(self.state, block) and clear(self.state, target) and below(self.state, block) != target

    def _are_places(self, words: list[str]) -> bool:
        """Whether the words are a block and another place."""
        known = [*NAMES[: len(self.state)], TABLE]
        return len(words) == 2 and all(word in known for word in words) and TABLE != words[0] != words[1]

    def _end_of_turn(self, local: float, info: str) -> StepResult:
        return self.end_of_turn(local, info, solved=self.state == self.instance.goal)

    def _shaped(self, left: int) -> float:
        """Shaping reward for going from the current remaining moves to `left`."""
        return self.shaped(self._left(self.state), left, self._left(self.instance.start))

    def _left(self, state: State) -> int:
        return moves_left(state, self.instance.goal)

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
        return f"{len(self.state)} blocks, {self._left(self.instance.start)} moves"

    @property
    def outcome(self) -> str:
        """The outcome."""
        return self.in_turns("built", f"{self._left(self.state)} moves left")


def blocksworld_vocabulary(config: Blocksworld) -> tuple[str, ...]:
    """Every word in observations and answers, in a fixed order."""
    return (*NAMES[: config.blocks], TABLE, "done", "open", "pile", "plan", "none", ";")
