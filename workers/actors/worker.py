"""Worker: the base of a policy's workers. Loads the model and monitors the device."""

import os
import time
from typing import TYPE_CHECKING

from training_core.llm.base_models.folder_creation import Progress, silent
from workers.actors.machine import prepare_process
from workers.actors.utilisation import Monitored
from workers.protocol.spec import Ready, WorkerSpec

if TYPE_CHECKING:
    from workers.actors.model_loading import LoadedModel


class Worker(Monitored):
    """A process, or a part of one, that works for one policy.

    The driver imports workers to start them as actors and stays free of torch: methods import what needs torch.
    """

    def __init__(self, spec: WorkerSpec, progress: Progress = silent) -> None:
        self._created = time.time()
        prepare_process(spec.config.resources.threads)
        self._spec = spec
        self._progress = progress

    def ping(self) -> int:
        """Return the process id."""
        return os.getpid()

    def _load(self) -> "LoadedModel":
        """Load the base model, and start to monitor the device. Raises ModelError."""
        from workers.actors.model_loading import load

        loaded = load(self._spec, self._created, self._progress)
        self._monitor(self._spec, on_gpu=loaded.on_gpu)
        return loaded


def ready(loaded: "LoadedModel", version: int) -> Ready:
    """The result of a worker's `start`."""
    return Ready(loaded.model_name, loaded.base, version, [loaded.span])
