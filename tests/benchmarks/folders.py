"""Where benchmarks write their results: into `var/`, which git ignores, or with `--record` among the tracked results."""

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "benchmarks" / "results"
"""Tracked results, from which the tables in the documentation are made."""
OWN_RESULTS = ROOT / "var" / "benchmarks" / "results"
"""Results of one's own machine."""


def add_result_folder(parser: argparse.ArgumentParser, part: str = "") -> None:
    """Add `--out` and `--record`; both set `out`, the folder of the results. `part`: a folder in it."""
    options = parser.add_mutually_exclusive_group()
    options.add_argument(
        "--out", type=Path, default=OWN_RESULTS / part, help="folder of the results (default: %(default)s)"
    )
    options.add_argument(
        "--record",
        dest="out",
        action="store_const",
        const=RESULTS / part,
        help="replace the tracked results, from which the documentation's tables are made",
    )
