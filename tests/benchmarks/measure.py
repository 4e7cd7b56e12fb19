"""One benchmark of the short set in this process: `python -m tests.benchmarks.measure NAME [--repeats 5] [--small] [--own] [--json FILE]`.

Prints the result, and writes it to FILE. Exit status: 0 measured; 3 a foreign side is not installed (nothing is written).
"""

import argparse
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.registry import SHORT_SET
from tests.benchmarks.results import (
    REPEATS,
    ROOT,
    Benchmark,
    load,
    machine_facts,
    make_result,
    printed,
    take_turns,
)

MISSING = 3
"""Exit status: a foreign side is not installed."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=SHORT_SET)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--small", action="store_true", help="tiny settings, which check the program")
    parser.add_argument("--own", action="store_true", help="without sides that run another project's code")
    parser.add_argument("--json", type=Path, help="file of the result")
    arguments = parser.parse_args(words)
    check_origin("training_core")
    benchmark = find_benchmark(arguments.name, small=arguments.small)
    if benchmark.missing and not arguments.own:
        sys.stdout.write(f"{arguments.name}: skipped: {benchmark.missing}\n")
        return MISSING
    facts, began = machine_facts(), time.monotonic()
    measured = take_turns(benchmark, arguments.repeats, own=arguments.own)
    facts["load"]["end"] = load()
    result = make_result(arguments.name, benchmark, measured, facts)
    result |= {"small": arguments.small, "seconds": round(time.monotonic() - began, 1)}
    sys.stdout.write(printed(result) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(result))
    return 0


def find_benchmark(name: str, *, small: bool) -> Benchmark:
    """Return a benchmark of the short set."""
    module, _, function = SHORT_SET[name].partition(":")
    benchmark: Benchmark = getattr(importlib.import_module(module), function)(small=small)
    return benchmark


def check_origin(package: str) -> None:
    """Check that a package is imported from this checkout, and not from an installed one. Raises SystemExit."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin or ROOT not in Path(spec.origin).resolve().parents:
        origin = spec.origin if spec else "nowhere"
        raise SystemExit(f"{package} is imported from {origin}, not from {ROOT}; set PYTHONPATH={ROOT}")


if __name__ == "__main__":
    sys.exit(main())
