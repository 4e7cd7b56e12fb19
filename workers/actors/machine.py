"""Settings of a process for tensor work, and the load of its machine."""

import ctypes
import os
import socket
import sys
from typing import Any

import psutil

GIB = 1024**3
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


def machine_load() -> dict[str, dict[str, float]]:
    """{host: {cpu_percent (since the last call in this process), memory_percent, memory_gib, gpu..._gib}}."""
    memory = psutil.virtual_memory()
    figures = {
        "cpu_percent": psutil.cpu_percent(),
        "memory_percent": memory.percent,
        "memory_gib": (memory.total - memory.available) / GIB,
    }
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            figures[f"gpu{index}_memory_gib"] = (total - free) / GIB
    return {socket.gethostname(): figures}
