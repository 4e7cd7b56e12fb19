"""Environments by the `type` of their config: one folder and one line each.

Only the `config` modules are imported here. The rest of an environment is imported when it is first used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training_core.config.base import EnvironmentSection
from training_core.importing import resolve
from training_core.llm.environments.arithmetic.config import Arithmetic
from training_core.llm.environments.blocksworld.config import Blocksworld
from training_core.llm.environments.coding.config import Coding
from training_core.llm.environments.custom.config import CustomEnvironment
from training_core.llm.environments.dataset.config import Dataset
from training_core.llm.environments.eight_queens.config import EightQueens
from training_core.llm.environments.external.config import External
from training_core.llm.environments.plan_path.config import PlanPath, PlanPathSingle, PlanPathTrio
from training_core.llm.environments.sokoban.config import Sokoban
from training_core.llm.environments.sudoku.config import Sudoku

if TYPE_CHECKING:
    from training_core.llm.environments.base import TextEnvironment, WarmStart

FOLDER = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class EnvironmentKind:
    """One type of environment."""

    config: type[EnvironmentSection]
    make: "str | Callable[[Any, int], TextEnvironment]"
    """(config section, run seed) -> environment; as a string, "folder.module:Name" in this package."""
    warm_start: str = ""
    """"folder.module:NAME" of the WarmStart of the tiny base model; empty if the model cannot play it."""

    @property
    def constructor(self) -> "Callable[[Any, int], TextEnvironment]":
        """The imported `make`."""
        return _imported(self.make) if isinstance(self.make, str) else self.make


ENVIRONMENTS: dict[str, EnvironmentKind] = {
    "external": EnvironmentKind(External, "external.environment:ExternalEnvironment"),
    "plan_path": EnvironmentKind(
        PlanPath, "plan_path.game:PlanPathEnvironment", "plan_path.demonstrations:DUO"
    ),
    "plan_path_single": EnvironmentKind(
        PlanPathSingle, "plan_path.teams:PlanPathSingleEnvironment", "plan_path.demonstrations:SINGLE"
    ),
    "plan_path_trio": EnvironmentKind(
        PlanPathTrio, "plan_path.teams:PlanPathTrioEnvironment", "plan_path.demonstrations:TRIO"
    ),
    "sudoku": EnvironmentKind(Sudoku, "sudoku.game:SudokuEnvironment", "sudoku.demonstrations:WARM_START"),
    "sokoban": EnvironmentKind(
        Sokoban, "sokoban.game:SokobanEnvironment", "sokoban.demonstrations:WARM_START"
    ),
    "eight_queens": EnvironmentKind(
        EightQueens, "eight_queens.game:EightQueensEnvironment", "eight_queens.demonstrations:WARM_START"
    ),
    "blocksworld": EnvironmentKind(
        Blocksworld, "blocksworld.game:BlocksworldEnvironment", "blocksworld.demonstrations:WARM_START"
    ),
    "arithmetic": EnvironmentKind(
        Arithmetic, "arithmetic.environment:ArithmeticEnvironment", "arithmetic.demonstrations:WARM_START"
    ),
    "dataset": EnvironmentKind(Dataset, "dataset.environment:DatasetEnvironment"),
    "coding": EnvironmentKind(
        Coding, "coding.environment:CodingEnvironment", "coding.demonstrations:WARM_START"
    ),
    "custom": EnvironmentKind(CustomEnvironment, "custom.environment:CustomEnvironmentMaker"),
}
"""Environments by type, in the order of the pages."""


def make_environment(section: Any, seed: int) -> "TextEnvironment":
    """The environment of a config section. Raises ConfigError if its data cannot be read."""
    return ENVIRONMENTS[section.type].constructor(section, seed)


def warm_start_of(tag: str) -> "WarmStart":
    """The demonstrations of a type of environment that is in `types_with_warm_start`."""
    warm_start: WarmStart = _imported(ENVIRONMENTS[tag].warm_start)
    return warm_start


def types_with_warm_start() -> list[str]:
    """The types with demonstrations, sorted by name."""
    return sorted(tag for tag, kind in ENVIRONMENTS.items() if kind.warm_start)


def _imported(path: str) -> Any:
    return resolve(f"{FOLDER}.{path}")
