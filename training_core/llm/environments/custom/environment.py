"""A custom environment by import path."""

from typing import ClassVar

from training_core.errors import ConfigError
from training_core.importing import load_object
from training_core.llm.environments.base import TextEnvironment
from training_core.llm.environments.custom.config import CustomEnvironment

_WANTED = ("reset", "observe", "act", "copy", "board")


class CustomEnvironmentMaker:
    """Factory of the class in the config: constructing it with the config and `seed` returns that class's instance."""

    roles: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, config: CustomEnvironment, seed: int) -> TextEnvironment:  # type: ignore[misc]
        """Raises ConfigError if the class does not exist or cannot be constructed."""
        kind = load_object(config.path, "environment.path")
        try:
            environment: TextEnvironment = kind(seed=seed, **config.args)
        except TypeError as error:
            text = f"{config.path} cannot be constructed with seed and environment.args: {error}"
            raise ConfigError({"environment.args": text}) from error
        missing = [name for name in _WANTED if not callable(getattr(environment, name, None))]
        if missing:
            text = f"{config.path} is not an environment: it has no {', '.join(missing)}; see TextEnvironment in docs/custom.md"
            raise ConfigError({"environment.path": text})
        return environment
