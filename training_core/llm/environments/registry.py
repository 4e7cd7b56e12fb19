"""Environments by the `type` of their config, with the data of the tiny base model for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from training_core.llm.environments import (
    blocksworld_demonstrations,
    eight_queens_demonstrations,
    sokoban_demonstrations,
    sudoku_demonstrations,
)
from training_core.llm.environments.arithmetic import ArithmeticEnvironment
from training_core.llm.environments.arithmetic_demonstrations import (
    ARITHMETIC_NOISE,
    arithmetic_demonstrations,
    arithmetic_vocabulary,
)
from training_core.llm.environments.base import Demonstration, TextEnvironment
from training_core.llm.environments.blocksworld import BlocksworldEnvironment, blocksworld_vocabulary
from training_core.llm.environments.coding import CodingEnvironment
from training_core.llm.environments.coding_demonstrations import NOISE as CODING_NOISE
from training_core.llm.environments.coding_demonstrations import coding_demonstrations, coding_vocabulary
from training_core.llm.environments.custom import CustomEnvironmentMaker
from training_core.llm.environments.dataset import DatasetEnvironment
from training_core.llm.environments.eight_queens import EightQueensEnvironment, eight_queens_vocabulary
from training_core.llm.environments.external import ExternalEnvironment
from training_core.llm.environments.plan_path import PlanPathEnvironment, plan_path_vocabulary
from training_core.llm.environments.plan_path_demonstrations import (
    NOISE,
    plan_path_demonstrations,
    plan_path_single_demonstrations,
    plan_path_trio_demonstrations,
)
from training_core.llm.environments.plan_path_teams import PlanPathSingleEnvironment, PlanPathTrioEnvironment
from training_core.llm.environments.sokoban import SokobanEnvironment, sokoban_vocabulary
from training_core.llm.environments.sudoku import SudokuEnvironment, sudoku_vocabulary

ENVIRONMENTS: dict[str, Callable[[Any, int], TextEnvironment]] = {
    "external": ExternalEnvironment,
    "plan_path": PlanPathEnvironment,
    "plan_path_single": PlanPathSingleEnvironment,
    "plan_path_trio": PlanPathTrioEnvironment,
    "sudoku": SudokuEnvironment,
    "sokoban": SokobanEnvironment,
    "eight_queens": EightQueensEnvironment,
    "blocksworld": BlocksworldEnvironment,
    "arithmetic": ArithmeticEnvironment,
    "dataset": DatasetEnvironment,
    "coding": CodingEnvironment,
    "custom": CustomEnvironmentMaker,
}
"""type -> (config section, run seed) -> environment."""


@dataclass(frozen=True)
class WarmStart:
    """Data of a tiny base model for an environment."""

    vocabulary: Callable[[Any], tuple[str, ...]]
    """Config section -> every word of observations and answers."""
    demonstrations: Callable[[Any, int], Iterator[Demonstration]]
    """(config section, seed) -> endless (observation, answer) pairs."""
    noise: float
    """Share of demonstrated words that were replaced at random."""


WARM_STARTS: dict[str, WarmStart] = {
    "plan_path": WarmStart(plan_path_vocabulary, plan_path_demonstrations, NOISE),
    "plan_path_single": WarmStart(plan_path_vocabulary, plan_path_single_demonstrations, NOISE),
    "plan_path_trio": WarmStart(plan_path_vocabulary, plan_path_trio_demonstrations, NOISE),
    "sudoku": WarmStart(
        sudoku_vocabulary, sudoku_demonstrations.sudoku_demonstrations, sudoku_demonstrations.NOISE
    ),
    "sokoban": WarmStart(
        sokoban_vocabulary, sokoban_demonstrations.sokoban_demonstrations, sokoban_demonstrations.NOISE
    ),
    "eight_queens": WarmStart(
        eight_queens_vocabulary,
        eight_queens_demonstrations.eight_queens_demonstrations,
        eight_queens_demonstrations.NOISE,
    ),
    "blocksworld": WarmStart(
        blocksworld_vocabulary,
        blocksworld_demonstrations.blocksworld_demonstrations,
        blocksworld_demonstrations.NOISE,
    ),
    "arithmetic": WarmStart(arithmetic_vocabulary, arithmetic_demonstrations, ARITHMETIC_NOISE),
    "coding": WarmStart(coding_vocabulary, coding_demonstrations, CODING_NOISE),
}
