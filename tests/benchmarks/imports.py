"""CPU time until a program of Troupe's can begin: imports, commands and presets, each in a process of its own.

python -m tests.benchmarks.imports [--repeats 5]
"""

import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.benchmarks.results import ROOT, Benchmark, Ratio, Side, run_program

LOAD = "from training_core.config.files import load_config, preset_names; "
TORCH, DRIVER = "import torch", "import of a local run's driver"
PROGRAMS = {
    "Python alone": "pass",
    TORCH: "import torch",
    "import troupe": "import troupe",
    "troupe --help": "import sys; sys.argv = ['troupe', '--help']; from troupe_client.cli.app import main; main()",
    "preset plan_path_duo": f"{LOAD}load_config('plan_path_duo')",
    "preset spread_mappo": f"{LOAD}load_config('spread_mappo')",
    "all presets": f"{LOAD}[load_config(name) for name in preset_names()]",
    DRIVER: "import workers.driver.attempt, workers.driver.local_backends",
    "import of the web application": "import webapp.site.asgi",
}
FOREIGN = ("Python alone", TORCH)


def benchmark(*, small: bool = False) -> Benchmark:
    """Each program is a side; `small` has the quickest ones."""
    programs = dict(list(PROGRAMS.items())[:3:2]) if small else PROGRAMS
    return Benchmark(
        about="CPU time of a process that does only this",
        units=dict.fromkeys(programs, "CPU ms"),
        open_sides=lambda: open_sides(programs),
        ratios=(Ratio("driver / torch alone", DRIVER, TORCH),),
        settings={"programs": programs},
        foreign=frozenset(FOREIGN),
    )


@contextmanager
def open_sides(programs: Mapping[str, str]) -> Iterator[Mapping[str, Side]]:
    """Programs whose compiled modules are in the cache."""
    sides: dict[str, Side] = {
        name: lambda name=name, code=code: {name: cpu_ms(code)} for name, code in programs.items()
    }
    for side in sides.values():
        side()
    yield sides


def cpu_ms(code: str) -> float:
    """CPU milliseconds (user and system) of a process that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    run_program("imports", benchmark, __doc__)
