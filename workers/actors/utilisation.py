"""How busy a worker's device is, looked at once a second by a thread of the worker's process."""

import importlib
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any

import psutil

from workers.loops.records import Load

INTERVAL = 1.0
"""Seconds between two looks; one costs tens of microseconds on a CPU, less than a millisecond on a GPU."""
MOST = 3600
"""Samples that are kept until they are fetched; then the oldest go."""

Reading = Callable[[], float]
"""Percent of the device in use since the last look (CPU) or of late (GPU), 0 to 100."""


class UtilisationSampler:
    """Samples one worker's device until the process ends."""

    def __init__(self, worker: str, threads: int, *, on_gpu: bool) -> None:
        self._worker = worker
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST)
        found = _gpu() if on_gpu else _cpu(threads)
        self._device = found[0] if found else "GPU, no NVML to ask"
        if found:
            Thread(target=self._work, args=found[1:], name="utilisation", daemon=True).start()

    def take(self) -> Load:
        """What was seen since the last call."""
        taken = [self._samples.popleft() for _ in range(len(self._samples))]
        return Load(self._worker, self._device, taken)

    def _work(self, reading: Reading) -> None:
        while True:
            time.sleep(INTERVAL)
            self._samples.append((time.time(), round(reading(), 1)))


def _cpu(threads: int) -> tuple[str, Reading]:
    """This process's share of the threads that it was allotted."""
    process = psutil.Process()
    process.cpu_percent()
    device = f"{socket.gethostname()} CPU, process {os.getpid()}"
    return device, lambda: min(100.0, process.cpu_percent() / threads)


def _gpu() -> tuple[str, Reading] | None:
    """The first GPU that this process sees, as NVML tells; None where NVML is not there (the `gpu` extra brings it)."""
    torch: Any = sys.modules["torch"]
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        facts = torch.cuda.get_device_properties(0)
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{facts.uuid}".encode())
        index = nvml.nvmlDeviceGetIndex(handle)
    except nvml.NVMLError:
        return None
    device = f"{socket.gethostname()} GPU {index}, {facts.name}"
    return device, lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
