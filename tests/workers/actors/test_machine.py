"""What a worker's process is made ready with."""

import os
import resource
import subprocess
import sys

import pytest
import torch

from workers.actors.machine import NetworkMeter, machine_load

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
