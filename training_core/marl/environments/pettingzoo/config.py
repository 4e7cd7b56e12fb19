"""The config of PettingZoo environments by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments
from training_core.importing import IMPORT_PATH
from training_core.marl.environments.environment_config import Wrapped


class PettingZoo(Wrapped):
    """Any PettingZoo parallel environment, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("members",)
    type: Literal["pettingzoo"] = "pettingzoo"
    """A parallel environment of custom code or of a package."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:function that creates the environment, e.g. mypackage.my_env:parallel_env."""
    args: Arguments = {}
    """Keyword arguments of the function."""
    members: dict[str, tuple[str, ...]] = {}
    """Agents of each role, by name prefix: {adversaries = ["adversary_"]}. Empty: one role has all of them."""
