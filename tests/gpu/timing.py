"""Time and memory on the device."""

import time
from collections.abc import Callable

import torch

BANDWIDTHS = {
    "H100 PCIe": 2.04e12,
    "H100": 3.35e12,
    "H200": 4.8e12,
    "A100-SXM4-40GB": 1.555e12,
    "A100": 2.04e12,
    "L40S": 0.864e12,
    "L4": 0.3e12,
    "RTX 4090": 1.008e12,
}
"""Bytes per second of the memory by words of the device's name, from the vendors' data sheets."""


def device_name(device: torch.device) -> str:
    """The card's name; "cpu" without one."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def bandwidth_of(device: torch.device) -> float | None:
    """Bytes per second of a card's memory; None if unknown."""
    fits = [name for name in BANDWIDTHS if name in device_name(device)]
    return BANDWIDTHS[max(fits, key=len)] if fits else None


def synchronise(device: torch.device) -> None:
    """Wait until the device has computed everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(act: Callable[[], object], device: torch.device) -> float:
    """Wall seconds of `act`, with everything that it starts on the device."""
    synchronise(device)
    start = time.perf_counter()
    act()
    synchronise(device)
    return time.perf_counter() - start


def reset_peak(device: torch.device) -> None:
    """Start to measure the peak of allocated memory."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int | None:
    """Largest number of allocated bytes since `reset_peak`; None on the CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def allocated(device: torch.device) -> int | None:
    """Allocated bytes; None on the CPU."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else None
