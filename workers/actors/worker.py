"""How every worker of a policy begins: its threads, the model loaded, its device watched."""

import os
import time
from typing import TYPE_CHECKING

from training_core.llm.base_models.progress import Progress, silent
from workers.actors.machine import prepare_process
from workers.actors.utilisation import Watched
from workers.protocol.spec import WorkerSpec

if TYPE_CHECKING:
    from workers.actors.sides import Loaded


class Worker(Watched):
    """A process, or a part of one, that works for one policy."""

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        self._born = time.time()
        prepare_process(spec.config.resources.threads)
        from workers.actors import (
            sides,  # here, not above: the driver imports this module and stays free of torch
        )

        self._spec = spec
        self._progress = progress
        self._sides = sides

    def ping(self) -> int:
        """Answers when the process stands, with its id."""
        return os.getpid()

    def _load(self) -> "Loaded":
        """The base model; from now on the device is watched. Raises ModelError."""
        loaded = self._sides.load(self._spec, self._born, self._progress)
        self._watch(self._spec, on_gpu=loaded.on_gpu)
        return loaded
