"""Settings of a process for tensor work, the devices that it may use, and its machine's and device's load."""

import ctypes
import importlib
import os
import socket
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import psutil

from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.devices import cuda_is_visible
from workers.protocol import Load

INTERVAL = 1.0
"""Seconds between samples; a sample takes tens of microseconds for a CPU, less than a millisecond for a GPU."""
MOST = 3600
"""Maximum number of stored samples; the oldest are dropped."""
Reading = Callable[[], float]
"""Utilisation since the last sample (CPU) or in a recent period (GPU), in percent."""
MIB, GIB = 1024**2, 1024**3
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's parameters of `mallopt`."""
_KEPT = 256 * 1024**2
_LARGE = 64 * 1024**2


def prepare_process(threads: int) -> None:
    """Set threads and memory allocation for tensor work; call before torch is imported, and again afterwards."""
    limit_threads(threads)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Keep up to 256 MiB of freed memory, in pieces below 64 MiB, for the tensors of the next step.

    glibc returns memory of large tensors immediately, and the kernel clears every page that is requested again: 1,600 page
    faults in each step of a small model, about 8% of its time. Without effect on other platforms (macOS, musl).
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _LARGE)


def limit_threads(threads: int) -> None:
    """Set the number of threads for tensor work."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


class NetworkMeter:
    """Transfer rates of the machine's network interfaces without the loopback, since the last reading.

    `read` returns the bytes received and sent so far, `clock` seconds.
    """

    def __init__(self, read: Callable[[], tuple[int, int]], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock
        self._last = (clock(), *read())

    def rates(self) -> dict[str, float]:
        """network_received_mib_s and network_sent_mib_s; empty if no time has passed or a counter was reset."""
        before, now = self._last, (self._clock(), *self._read())
        self._last = now
        seconds, received, sent = (new - old for new, old in zip(now, before, strict=True))
        if seconds <= 0 or received < 0 or sent < 0:
            return {}
        return {
            "network_received_mib_s": received / MIB / seconds,
            "network_sent_mib_s": sent / MIB / seconds,
        }


def network_bytes() -> tuple[int, int]:
    """Bytes received and sent by all interfaces except the loopback; zeros where the platform does not count them."""
    counters = psutil.net_io_counters(pernic=True, nowrap=True) or {}
    outside = [counter for name, counter in counters.items() if not name.startswith("lo")]
    return sum(counter.bytes_recv for counter in outside), sum(counter.bytes_sent for counter in outside)


_network = NetworkMeter(network_bytes, time.monotonic)


def peak_memory(device: Any) -> float | None:
    """Peak of the tensors' memory on a torch device since the last call of this process, in GiB; None on the CPU."""
    torch: Any = sys.modules["torch"]
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device) / GIB
    torch.cuda.reset_peak_memory_stats(device)
    return float(peak)


def card_memory(gpus: float) -> int:
    """Memory of this process's GPU in bytes that a worker may use: what other processes leave free, if the worker has all of it."""
    torch: Any = sys.modules["torch"]
    free, total = torch.cuda.mem_get_info()
    return int(total if gpus < 1 else free + torch.cuda.memory_reserved())


def machine_load() -> dict[str, dict[str, float]]:
    """{host: {cpu_percent, memory_percent, memory_gib, network_..._mib_s, gpu..._memory_gib, gpu..._percent}}.

    CPU and network are means since the last call in this process.
    """
    memory = psutil.virtual_memory()
    figures = {
        "cpu_percent": psutil.cpu_percent(),
        "memory_percent": memory.percent,
        "memory_gib": (memory.total - memory.available) / GIB,
        **_network.rates(),
    }
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            figures[f"gpu{index}_memory_gib"] = (total - free) / GIB
            with suppress(ModuleNotFoundError, RuntimeError):  # no NVML
                figures[f"gpu{index}_percent"] = float(torch.cuda.utilization(index))
    return {socket.gethostname(): figures}


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


def rollout_gpus(config: RunConfig, policy: str) -> float:
    """GPUs of a policy that generates in this process; 0 without a visible one."""
    wanted = config.policies[policy].devices.rollout_gpus
    return wanted if wanted and cuda_is_visible() else 0.0


def on_visible_devices(config: MarlConfig) -> MarlConfig:
    """The config without GPUs where none is visible."""
    if not config.resources.gpus or cuda_is_visible():
        return config
    return config.model_copy(update={"resources": config.resources.model_copy(update={"gpus": 0.0})})
