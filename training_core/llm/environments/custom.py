"""A custom environment by import path."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, EnvironmentSection
from training_core.errors import ConfigError
from training_core.importing import IMPORT_PATH, load_object
from training_core.llm.environments.base import TextEnvironment


class CustomEnvironment(EnvironmentSection):
    """A custom environment by import path; its roles are those of the team."""

    open_roles: ClassVar[bool] = True
    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    task_fields: ClassVar[tuple[str, ...]] = ("path", "args")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "threads")
    type: Literal["custom"] = "custom"
    """A custom class that implements TextEnvironment."""
    path: str = Field(pattern=IMPORT_PATH)
    """Import path package.module:Class; the class is constructed with `seed` and `args`."""
    args: Arguments = {}
    """Additional keyword arguments that the class is constructed with."""
    max_turns: int = Field(64, ge=1, le=1024)
    """Maximum number of turns of the whole team; the environment may end the episode earlier."""
    threads: int = Field(1, ge=1, le=256)
    """Threads that evaluate answers: above 1 for environments that wait for other programs."""

    @property
    def answers_at_a_time(self) -> int:
        """Threads that evaluate answers."""
        return self.threads


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
            text = f"{config.path} is not an environment: it has no {', '.join(missing)}"
            raise ConfigError(
                {"environment.path": text}, remedy="see TextEnvironment in docs/train/custom.md"
            )
        return environment
