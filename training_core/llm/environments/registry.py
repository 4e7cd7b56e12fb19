"""Environments by the `type` of their config: one module and one line each. They import nothing heavy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training_core.config.base import EnvironmentSection
from training_core.llm.environments import (
    arithmetic,
    blocksworld,
    coding,
    custom,
    dataset,
    eight_queens,
    external,
    kuhn_poker,
    sokoban,
    sudoku,
    verifiers,
)
from training_core.llm.environments.base import TextEnvironment, WarmStart
from training_core.llm.environments.plan_path import demonstrations, game


@dataclass(frozen=True)
class EnvironmentKind:
    """One type of environment."""

    config: type[EnvironmentSection]
    make: Callable[[Any, int], TextEnvironment]
    """(config section, run seed) -> environment."""
    warm_start: WarmStart | None = None
    """The data of the tiny base model; None if the model cannot play it."""


ENVIRONMENTS: dict[str, EnvironmentKind] = {
    "external": EnvironmentKind(external.External, external.ExternalEnvironment),
    "plan_path": EnvironmentKind(game.PlanPath, game.PlanPathEnvironment, demonstrations.DUO),
    "plan_path_single": EnvironmentKind(
        game.PlanPathSingle, game.PlanPathSingleEnvironment, demonstrations.SINGLE
    ),
    "plan_path_trio": EnvironmentKind(game.PlanPathTrio, game.PlanPathTrioEnvironment, demonstrations.TRIO),
    "sudoku": EnvironmentKind(sudoku.Sudoku, sudoku.SudokuEnvironment, sudoku.WARM_START),
    "sokoban": EnvironmentKind(sokoban.Sokoban, sokoban.SokobanEnvironment, sokoban.WARM_START),
    "sudoku_single": EnvironmentKind(sudoku.SudokuSingle, sudoku.SudokuSingleEnvironment),
    "sokoban_single": EnvironmentKind(sokoban.SokobanSingle, sokoban.SokobanSingleEnvironment),
    "eight_queens": EnvironmentKind(
        eight_queens.EightQueens, eight_queens.EightQueensEnvironment, eight_queens.WARM_START
    ),
    "blocksworld": EnvironmentKind(
        blocksworld.Blocksworld, blocksworld.BlocksworldEnvironment, blocksworld.WARM_START
    ),
    "arithmetic": EnvironmentKind(
        arithmetic.Arithmetic, arithmetic.ArithmeticEnvironment, arithmetic.WARM_START
    ),
    "dataset": EnvironmentKind(dataset.Dataset, dataset.DatasetEnvironment),
    "kuhn_poker": EnvironmentKind(
        kuhn_poker.KuhnPoker, kuhn_poker.KuhnPokerEnvironment, kuhn_poker.WARM_START
    ),
    "coding": EnvironmentKind(coding.Coding, coding.CodingEnvironment, coding.WARM_START),
    "coding_single": EnvironmentKind(coding.CodingSingle, coding.CodingSingleEnvironment),
    "verifiers": EnvironmentKind(verifiers.Verifiers, verifiers.VerifiersEnvironment),
    "custom": EnvironmentKind(custom.CustomEnvironment, custom.CustomEnvironmentMaker),
}
"""Environments by type, in the order of the pages."""


def make_environment(section: Any, seed: int) -> TextEnvironment:
    """The environment of a config section. Raises ConfigError if its data cannot be read."""
    return ENVIRONMENTS[section.type].make(section, seed)


def warm_start_of(tag: str) -> WarmStart:
    """The demonstrations of a type of environment that is in `types_with_warm_start`."""
    warm_start = ENVIRONMENTS[tag].warm_start
    assert warm_start is not None, f"{tag} has no demonstrations"
    return warm_start


def types_with_warm_start() -> list[str]:
    """The types with demonstrations, sorted by name."""
    return sorted(tag for tag, kind in ENVIRONMENTS.items() if kind.warm_start)
