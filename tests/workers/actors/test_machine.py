"""Settings and load of a process and its machine; samples of its device."""

import gc
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from workers.actors.machine import NetworkMeter, UtilisationSampler, machine_load
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


STEPS = """
import resource, sys, torch
from workers.actors.machine import prepare_process
torch.set_num_threads(1)
if sys.argv[1] == "prepared":
    prepare_process(1)
def step():
    kept = [torch.ones(2**20) for _ in range(8)]  # eight of 4 MiB, given back together
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    fresh = {"MALLOC_MMAP_THRESHOLD_": "131072"}  # else glibc raises it by itself, as chance will have it
    run = subprocess.run(
        [sys.executable, "-c", STEPS, how], env=os.environ | fresh, capture_output=True, text=True, check=True
    )
    return int(run.stdout)


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_reused_by_the_next_step():
    pages = 20 * 32 * 2**20 // resource.getpagesize()
    assert faults("prepared") < pages / 10
    assert faults("plain") > pages / 2


def test_network_rates_by_hand() -> None:
    bytes_read = iter([(0, 0), (3 * 2**20, 2**20), (3 * 2**20, 2**20), (0, 0)])
    seconds = iter([10.0, 12.0, 12.0, 13.0])
    meter = NetworkMeter(lambda: next(bytes_read), lambda: next(seconds))
    assert meter.rates() == {"network_received_mib_s": 1.5, "network_sent_mib_s": 0.5}
    assert meter.rates() == {}, "no time has passed"
    assert meter.rates() == {}, "the counters were reset"


def test_load_has_network_rates_and_without_a_gpu_no_gpu_metric() -> None:
    machine_load()
    (figures,) = machine_load().values()
    assert {"cpu_percent", "memory_gib", "network_received_mib_s", "network_sent_mib_s"} <= figures.keys()
    assert all(value >= 0 for value in figures.values())
    assert torch.cuda.is_available() or not [name for name in figures if name.startswith("gpu")]
