"""The config of a custom environment."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import Arguments, EnvironmentSection
from training_core.importing import IMPORT_PATH


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
