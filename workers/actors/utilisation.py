"""How busy a worker's device is, looked at once a second by a thread of the worker's process."""

import importlib
import os
import socket
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import psutil

from workers.actors.machine import machine_load
from workers.protocol.records import Load, System
from workers.protocol.spec import WorkerSpec

INTERVAL = 1.0
"""Seconds between two looks; one costs tens of microseconds on a CPU, less than a millisecond on a GPU."""
MOST = 3600
"""Samples that are kept until they are fetched; then the oldest go."""

Reading = Callable[[], float]
"""Percent of the device in use since the last look (CPU) or of late (GPU), 0 to 100."""


class UtilisationSampler:
    """Samples one worker's device every so many seconds until it is closed or collected."""

    def __init__(self, worker: str, threads: int, *, on_gpu: bool, every: float = INTERVAL) -> None:
        self._worker = worker
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST)
        found = _gpu() if on_gpu else _cpu(threads)
        self._device = found[0] if found else "GPU, no NVML to ask"
        stop = Event()
        self._end = weakref.finalize(self, stop.set)
        if found:
            # The thread holds no reference to the sampler: it would keep it, and so itself, for ever.
            Thread(
                target=_look, args=(found[1], self._samples, stop, every), name="utilisation", daemon=True
            ).start()

    def take(self) -> Load:
        """What was seen since the last call."""
        taken = [self._samples.popleft() for _ in range(len(self._samples))]
        return Load(self._worker, self._device, taken)

    def close(self) -> None:
        """Look no more."""
        self._end()


class Watched:
    """A worker whose machine and device are looked at."""

    _sampler: UtilisationSampler | None = None

    def _watch(self, spec: WorkerSpec, *, on_gpu: bool) -> None:
        """Sample the device from now on: once a second, and at least as often as it is told."""
        every = min(INTERVAL, spec.config.reporting.system_every)
        self._sampler = UtilisationSampler(
            spec.name, spec.config.resources.threads, on_gpu=on_gpu, every=every
        )

    def system(self) -> System:
        """Load of this machine, and of this worker's device since the last call."""
        return System(machine_load(), [self._sampler.take()] if self._sampler else [])

    def close(self) -> None:
        """End what goes on in the background."""
        if self._sampler:
            self._sampler.close()


def _look(reading: Reading, samples: deque[tuple[float, float]], stop: Event, every: float) -> None:
    while not stop.wait(every):
        samples.append((time.time(), round(reading(), 1)))


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
