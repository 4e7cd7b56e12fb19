"""The sampler on this machine's CPU, and on a GPU whose NVML is written down here."""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from workers.actors.machine import UtilisationSampler
from workers.protocol import Load


def samples(sampler: UtilisationSampler, count: int) -> Load:
    """The first samples, and more until one shows a busy device: a busy machine may delay this process."""
    end = time.monotonic() + 300
    while len(sampler._samples) < count or not any(percent for _, percent in list(sampler._samples)):
        assert time.monotonic() < end, "no samples"
        sum(range(10_000))
    return sampler.take()


def test_a_busy_process_has_high_cpu_utilisation() -> None:
    began = time.time()
    load = samples(UtilisationSampler("planner", 1, on_gpu=False, every=0.05), 4)
    assert load.worker == "planner" and load.device.endswith(f"CPU, process {os.getpid()}")
    moments = [moment for moment, _ in load.samples]
    assert moments == sorted(moments) and began <= moments[0] <= time.time()
    assert all(0 <= percent <= 100 for _, percent in load.samples)
    assert max(percent for _, percent in load.samples) > 0


class Nvml:
    """The calls of NVML that are used, for one GPU with 37 % utilisation."""

    NVMLError = RuntimeError

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> str:
        assert uuid == b"GPU-12ab"
        return "handle"

    def nvmlDeviceGetIndex(self, handle: str) -> int:
        return 3

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        assert handle == "handle"
        return SimpleNamespace(gpu=37, memory=5)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch with one GPU."""
    facts = SimpleNamespace(uuid="12ab", name="NVIDIA H100 80GB HBM3")
    found = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda index: facts))
    monkeypatch.setitem(sys.modules, "torch", found)


def test_gpu_utilisation_is_read_through_nvml(cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    load = samples(UtilisationSampler("planner", 1, on_gpu=True, every=0.01), 2)
    assert load.device.endswith(" GPU 3, NVIDIA H100 80GB HBM3")
    assert {percent for _, percent in load.samples} == {37.0}


def test_a_gpu_without_nvml_has_no_samples(cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert UtilisationSampler("planner", 1, on_gpu=True).take() == Load("planner", "GPU without NVML", [])


def thread_of(make: Callable[[], UtilisationSampler]) -> tuple[UtilisationSampler, threading.Thread]:
    """A new sampler and the thread that it has started."""
    before = set(threading.enumerate())
    sampler = make()
    (thread,) = set(threading.enumerate()) - before
    return sampler, thread


def test_the_sampling_thread_ends_on_close() -> None:
    sampler, thread = thread_of(lambda: UtilisationSampler("planner", 1, on_gpu=False, every=3600.0))
    assert thread.is_alive()
    sampler.close()
    thread.join(300)
    assert not thread.is_alive()


def test_the_sampling_thread_ends_on_garbage_collection() -> None:
    sampler, thread = thread_of(lambda: UtilisationSampler("planner", 1, on_gpu=False, every=3600.0))
    del sampler
    gc.collect()
    thread.join(300)
    assert not thread.is_alive()
