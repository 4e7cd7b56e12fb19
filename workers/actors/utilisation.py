"""Utilisation of a worker's device, sampled once a second by a thread of its process."""

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
"""Seconds between samples; a sample takes tens of microseconds for a CPU, less than a millisecond for a GPU."""
MOST = 3600
"""Maximum number of stored samples; the oldest are dropped."""

Reading = Callable[[], float]
"""Utilisation since the last sample (CPU) or in a recent period (GPU), in percent."""


class UtilisationSampler:
    """Samples one worker's device every `every` seconds until it is closed or garbage-collected."""

    def __init__(self, worker: str, threads: int, *, on_gpu: bool, every: float = INTERVAL) -> None:
        self._worker = worker
        self._samples: deque[tuple[float, float]] = deque(maxlen=MOST)
        device = _gpu() if on_gpu else _cpu(threads)
        self._device = device[0] if device else "GPU without NVML"
        stop = Event()
        self._end = weakref.finalize(self, stop.set)
        if device:
            # The thread holds no reference to the sampler, which would otherwise never be collected.
            Thread(
                target=_sample, args=(device[1], self._samples, stop, every), name="utilisation", daemon=True
            ).start()

    def take(self) -> Load:
        """The samples since the last call."""
        samples = [self._samples.popleft() for _ in range(len(self._samples))]
        return Load(self._worker, self._device, samples)

    def close(self) -> None:
        """Stop sampling."""
        self._end()


class Monitored:
    """A worker whose machine and device are monitored."""

    _sampler: UtilisationSampler | None = None

    def _monitor(self, spec: WorkerSpec, *, on_gpu: bool) -> None:
        """Start to sample the device once a second, or more often if `reporting.system_every` is shorter."""
        every = min(INTERVAL, spec.config.reporting.system_every)
        self._sampler = UtilisationSampler(
            spec.name, spec.config.resources.threads, on_gpu=on_gpu, every=every
        )

    def system(self) -> System:
        """Load of this machine, and of this worker's device since the last call."""
        return System(machine_load(), [self._sampler.take()] if self._sampler else [])

    def close(self) -> None:
        """Stop sampling."""
        if self._sampler:
            self._sampler.close()


def _sample(reading: Reading, samples: deque[tuple[float, float]], stop: Event, every: float) -> None:
    while not stop.wait(every):
        samples.append((time.time(), round(reading(), 1)))


def _cpu(threads: int) -> tuple[str, Reading]:
    """CPU use of this process, relative to its number of threads."""
    process = psutil.Process()
    process.cpu_percent()
    device = f"{socket.gethostname()} CPU, process {os.getpid()}"
    return device, lambda: min(100.0, process.cpu_percent() / threads)


def _gpu() -> tuple[str, Reading] | None:
    """The first visible GPU, read through NVML; None without NVML (which the `gpu` extra installs)."""
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
