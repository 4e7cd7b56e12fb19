"""Settings of a process for tensor work, and the load of its machine."""

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

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
