"""EnvWorker: hosts many environments in one process, on the CPU, without torch."""

import os

from training_core.llm.environments.host import EnvironmentHost
from workers.actors.machine import machine_load


class EnvWorker(EnvironmentHost):
    """An EnvironmentHost as an actor. An environment that raises is reported as failed."""

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def system(self) -> dict[str, dict[str, float]]:
        """Load of this machine."""
        return machine_load()
