"""A benchmark, the turns of its sides, and the file of its result.

A module of the registry has a function that returns a `Benchmark`. Its sides take turns (A, B, A, B), so that
ratios compare measurements of the same minute. A result is written to `<benchmark>.json` in a folder (see tests.benchmarks.folders).
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.benchmarks.folders import ROOT
from tests.benchmarks.intervals import paired_ratios, spread

REPEATS = 5
MOST_LOAD = 0.5
"""Load average above which a machine counts as busy."""
VECTORS = {"amx_tile": "AMX", "avx512f": "AVX-512", "avx2": "AVX2"}
"""Names of vector instructions by the kernel's flag, the widest first: oneDNN's speed depends on them."""
Values = Mapping[str, float]
"""Figures by name."""
Side = Callable[[], Values]
"""One turn of a side: does the work once and returns its figures."""
Measured = dict[str, list[float]]
"""Values by figure, one for each repeat."""


@dataclass(frozen=True)
class Ratio:
    """A comparison of two figures of the same run."""

    name: str
    numerator: str
    denominator: str


@dataclass(frozen=True)
class Benchmark:
    """What is measured, in which units, by which sides."""

    about: str
    units: Mapping[str, str]
    """Unit by figure."""
    open_sides: Callable[[], AbstractContextManager[Mapping[str, Side]]]
    """Prepares and warms up the sides, and ends what they have started."""
    ratios: tuple[Ratio, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    """Sides that run another project's code: they are the same at each commit of this one."""
    missing: str = ""
    """The reason why a foreign side cannot run here, with the remedy; empty if it can."""


def take_turns(benchmark: Benchmark, repeats: int, *, own: bool = False) -> Measured:
    """Run the sides in turns, `repeats` times; with `own` without foreign sides. Returns the values of each figure in order."""
    measured: Measured = {}
    with benchmark.open_sides() as sides:
        turns = [side for name, side in sides.items() if not (own and name in benchmark.foreign)]
        for _ in range(repeats):
            for side in turns:
                for figure, value in side().items():
                    measured.setdefault(figure, []).append(value)
    unknown = measured.keys() - benchmark.units.keys()
    if unknown:
        raise ValueError(f"figures without a unit: {', '.join(sorted(unknown))}")
    return measured


def timed(act: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Return (CPU seconds of this process, wall seconds) of one call, as the mean over `times` calls."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        act()
    return (time.process_time() - cpu) / times, (time.perf_counter() - wall) / times


def make_result(
    name: str, benchmark: Benchmark, measured: Measured, machine: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of a result file."""
    figures = {
        figure: {"unit": benchmark.units[figure]} | asdict(spread(values)) | {"values": values}
        for figure, values in measured.items()
    }
    ratios = {
        ratio.name: {"numerator": ratio.numerator, "denominator": ratio.denominator}
        | asdict(spread(paired_ratios(measured[ratio.numerator], measured[ratio.denominator])))
        for ratio in benchmark.ratios
        if ratio.numerator in measured and ratio.denominator in measured
    }
    return {
        "benchmark": name,
        "about": benchmark.about,
        **machine,
        "settings": dict(benchmark.settings),
        "repeats": max(map(len, measured.values()), default=0),
        "figures": figures,
        "ratios": ratios,
    }


def machine_facts(root: Path = ROOT) -> dict[str, Any]:
    """Return date, commit and machine; the load averages at the end are added later."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git(root, "rev-parse", "HEAD"),
        "dirty": bool(_git(root, "status", "--porcelain", "--", ".", ":!tests/benchmarks/results")),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "load": {"start": load(), "end": None},
    }


def cpu_model() -> str:
    """Return the name of the CPU and its widest vector instructions; its architecture if the kernel does not give a name."""
    vectors = [shown for flag, shown in VECTORS.items() if flag in cpu_flags()]
    return ", ".join([_cpu_facts().get("model name", platform.machine()), *vectors[:1]])


def cpu_flags() -> frozenset[str]:
    """Return the kernel's flags of the CPU's features; none if the kernel does not list them."""
    return frozenset(_cpu_facts().get("flags", "").split())


@cache
def _cpu_facts() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def result_path(folder: Path, name: str) -> Path:
    """Return the path of a benchmark's result."""
    return folder / f"{name}.json"


def write_result(folder: Path, name: str, result: Mapping[str, Any]) -> None:
    """Replace a result atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = result_path(folder, name).with_suffix(".new")
    draft.write_text(json.dumps(result, indent=1) + "\n")
    draft.replace(result_path(folder, name))


def read_result(folder: Path, name: str) -> dict[str, Any] | None:
    """Return a benchmark's result; None if there is none."""
    path = result_path(folder, name)
    if not path.is_file():
        return None
    result: dict[str, Any] = json.loads(path.read_text())
    return result


def printed(result: Mapping[str, Any]) -> str:
    """Return a result as lines of text: medians, in brackets the lowest and the highest value."""
    lines = [f"{result['benchmark']}: {result['about']} ({result['repeats']} repeats)"]
    lines += [
        f"  {name}: {number(row['median'])} {row['unit']} ({number(row['lowest'])} to {number(row['highest'])})"
        for name, row in result["figures"].items()
    ]
    lines += [
        f"  {name}: {number(row['median'])} × ({number(row['lowest'])} to {number(row['highest'])})"
        for name, row in result["ratios"].items()
    ]
    return "\n".join(lines)


def number(value: float) -> str:
    """Return a value with three significant digits, and thousands with separators."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if 1 <= abs(value) < 10 else f"{value:.3g}"


def run_alone(benchmark: Benchmark, name: str, repeats: int) -> None:
    """Run one benchmark in this process and print its result, without a file: the main function of its module."""
    if benchmark.missing:
        raise SystemExit(benchmark.missing)
    sys.stdout.write(
        printed(make_result(name, benchmark, take_turns(benchmark, repeats), machine_facts())) + "\n"
    )


def run_program(name: str, benchmark: Callable[..., Benchmark], about: str | None, **options: Any) -> None:
    """The program of a benchmark's module: `--repeats`, and the options that `benchmark` takes, by name with argparse's settings."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    for option, settings in ({"repeats": {}} | options).items():
        defaults = {"type": int, "default": REPEATS} if option == "repeats" else {}
        parser.add_argument(f"--{option}", **defaults | settings)
    chosen = vars(parser.parse_args())
    repeats = chosen.pop("repeats")
    run_alone(benchmark(**chosen), name, repeats)


def _git(root: Path, *words: str) -> str | None:
    try:
        answer = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
