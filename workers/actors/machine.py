"""What a process sees of the machine it runs on."""

import os
import socket
import sys
from typing import Any

import psutil

GIB = 1024**3


def limit_threads(threads: int) -> None:
    """Give this process its threads for tensor work; call before torch is imported, and again after."""
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
