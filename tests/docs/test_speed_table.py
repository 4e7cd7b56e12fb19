"""The tables of speed are what the command makes of the committed results."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from docs.make_speed_table import BEGIN, END, NOTHING, PAGES, ROWS, replaced, table
from tests.architecture.source import ROOT
from tests.benchmarks.folders import RESULTS
from tests.benchmarks.registry import SHORT_SET
from tests.benchmarks.results import write_result


def result(benchmark: str, **changes: Any) -> dict[str, Any]:
    spread = {"median": 82.345, "lowest": 80.0, "highest": 1234.0}
    return {
        "benchmark": benchmark,
        "date": "2026-01-02T03:04:05+00:00",
        "commit": "0123456789abcdef",
        "dirty": False,
        "cpu": "Toy CPU",
        "cores": 2,
        "load": {"before": 0.1, "start": 0.9, "end": 1.0},
        "repeats": 5,
        "figures": {row.name: {"unit": "CPU ms"} | spread for row in ROWS if row.benchmark == benchmark},
        "ratios": {},
    } | changes


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_page_has_the_table_of_the_committed_results(path: Path) -> None:
    page = path.read_text()
    assert page == replaced(page, table(RESULTS, PAGES[path])), "run python -m docs.make_speed_table"


def test_a_row_needs_a_result_and_has_its_own_date_and_commit(tmp_path: Path) -> None:
    assert table(tmp_path) == NOTHING
    write_result(tmp_path, "imports", result("imports"))
    changes = {
        "date": "2026-02-03T00:00:00+00:00",
        "dirty": True,
        "load": {"before": 2.5, "start": 2.5, "end": 2.5},
    }
    write_result(tmp_path, "log_call", result("log_call"))
    ratio = {"median": 2.5, "lowest": 2.25, "highest": 12.5}
    names = [row.name for row in ROWS if row.benchmark == "marl_training"]
    write_result(
        tmp_path,
        "marl_training",
        result("marl_training", figures={}, ratios=dict.fromkeys(names, ratio), **changes),
    )
    lines = table(tmp_path).splitlines()
    assert "| `import troupe` | 82.3 CPU ms (80 to 1,234) | 5 | 2026-01-02, `01234567` |" in lines
    busy = "2026-02-03, `01234567`, with uncommitted changes, busy machine (load 2.5)"
    assert f"| the same in bf16 | 2.50 × (2.25 to 12.5) | 5 | {busy} |" in lines
    rows = [row for row in ROWS if row.benchmark in ("imports", "marl_training")]
    assert len([line for line in lines if line.startswith("|")]) == 2 + len(rows)
    assert lines[-1] == "Measured on Toy CPU, 2 cores."


def test_a_result_without_the_figure_of_its_row_is_an_error(tmp_path: Path) -> None:
    write_result(tmp_path, "imports", result("imports", figures={}))
    with pytest.raises(KeyError):
        table(tmp_path)


def test_only_the_part_between_the_comments_is_replaced() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="no part between"):
        replaced("a", "new")


def test_the_page_explains_each_benchmark_of_the_short_set() -> None:
    page = (ROOT / "docs/operate/performance.md").read_text()
    assert not [name for name in SHORT_SET if f"| `{name}` |" not in page]


@pytest.mark.extended
def test_each_row_names_a_figure_or_ratio_of_its_benchmark() -> None:
    for name, function in SHORT_SET.items():
        module, _, maker = function.partition(":")
        benchmark = getattr(importlib.import_module(module), maker)()
        names = benchmark.units.keys() | {ratio.name for ratio in benchmark.ratios}
        assert {row.name for row in ROWS if row.benchmark == name} <= names, name
    assert {row.benchmark for row in ROWS} <= SHORT_SET.keys()
