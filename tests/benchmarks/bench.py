"""The short set of benchmarks, which `make bench` measures.

    python -m tests.benchmarks.bench [NAME ...] [--small] [--repeats 5] [--out FOLDER | --record]

Each benchmark runs in a process of its own and writes `var/benchmarks/results/<name>.json`, with `--record` the tracked
`tests/benchmarks/results/<name>.json`. A benchmark that fails, or lacks what it is compared with, keeps its earlier file. The exit
status is 1 if one failed.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.children import run_measuring, terminations_as_interrupts
from tests.benchmarks.folders import RESULTS, ROOT, add_result_folder
from tests.benchmarks.measure import MISSING
from tests.benchmarks.registry import SHORT_SET
from tests.benchmarks.results import MOST_LOAD, REPEATS, load, write_result


def main(words: Sequence[str] | None = None) -> int:
    """Measure each benchmark and write its result."""
    arguments = _parser().parse_args(words)
    unknown = [name for name in arguments.names if name not in SHORT_SET]
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; benchmarks are {', '.join(SHORT_SET)}")
    if arguments.out == RESULTS and (arguments.small or arguments.repeats < REPEATS):
        raise SystemExit(
            f"tracked results need at least {REPEATS} repeats and the full settings: omit --record for trials"
        )
    before = load()
    if before > MOST_LOAD:
        print(
            f"WARNING: the load average is {before}: times will be too long. The files state the load.",
            flush=True,
        )
    states = {}
    with terminations_as_interrupts():
        for name in arguments.names or SHORT_SET:
            began = time.monotonic()
            states[name] = measure(name, arguments, before)
            print(f"{name}: {states[name]} after {time.monotonic() - began:.0f} s\n", flush=True)
    print(
        ", ".join(f"{name} {state}" for name, state in states.items()) + f"; results are in {arguments.out}"
    )
    return int("FAILED" in states.values())


def measure(name: str, arguments: argparse.Namespace, before: float) -> str:
    """Run one benchmark in a process of its own and write its result. Returns "measured", "skipped" or "FAILED"."""
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        file = Path(folder) / "result.json"
        words = [name, "--json", str(file), "--repeats", str(arguments.repeats)]
        status = run_measuring(ROOT, words + ["--small"] * arguments.small)
        if status == MISSING:
            return "skipped"
        if status:
            return "FAILED"
        result = json.loads(file.read_text())
    result["load"]["before"] = before
    write_result(arguments.out, name, result)
    return "measured"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(SHORT_SET)}")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--small", action="store_true", help="tiny settings, which check the programs")
    add_result_folder(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
