"""EnvWorker: hosts many environments in one process, on a CPU, without torch."""

import os

from training_core.config.environments import Environment
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import EnvironmentHost, Said, SlotView
from workers.actors.machine import machine_load


class EnvWorker:
    """An EnvironmentHost behind calls that a pool makes; one bad environment never raises here."""

    def __init__(self, section: Environment, seed: int) -> None:
        self._host = EnvironmentHost(section, seed)

    def ping(self) -> int:
        """Answers when the process stands, with its id."""
        return os.getpid()

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        return self._host.reset(tasks)

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        return self._host.observe(slots, role)

    def try_answers(self, answers: Said, role: str) -> dict[int, list[StepResult] | str]:
        return self._host.try_answers(answers, role)

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        return self._host.commit(chosen)

    def system(self) -> dict[str, dict[str, float]]:
        """Load of this machine."""
        return machine_load()
