"""Write the table of speed into README.md and docs/operate/performance.md: `python -m docs.make_speed_table`.

Rows come from `tests/benchmarks/results/*.json`, which `make bench RECORD=1` writes. A row without a result does not exist. A test
compares both pages with the output.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.folders import RESULTS, ROOT
from tests.benchmarks.results import MOST_LOAD, number, read_result

README, PERFORMANCE = ROOT / "README.md", ROOT / "docs/operate/performance.md"
BEGIN, END = "<!-- speed: begin; python -m docs.make_speed_table -->", "<!-- speed: end -->"
IN_README = frozenset(
    {
        "TRL / Troupe fp32, hidden 64",
        "TRL / Troupe bf16, hidden 64",
        "generate, unshared / shared, short prompts, many alike",
        "update, unpacked / packed, short prompts, many alike",
        "native, 1,024 environments / mpe2, one parallel environment",
        "this trainer on VMAS, 2 x 256, fp32 / BenchMARL on VMAS, 2 x 256",
        "plan_path_duo, first point",
        "log call, median",
        "200 viewers, call to pixel, p95",
        "by metric",
    }
)
"""Names of the ten figures of the README."""
PAGES: dict[Path, Collection[str]] = {README: IN_README, PERFORMANCE: ()}
NOTHING = "No results are stored. `make bench RECORD=1` measures them."


@dataclass(frozen=True)
class Row:
    """A figure or a ratio of a benchmark."""

    label: str
    benchmark: str
    name: str
    """Of the figure or ratio in the result."""


ROWS = (
    Row(
        "training step, hidden 64 × 3 layers, fp32: speed relative to TRL",
        "llm_step",
        "TRL / Troupe fp32, hidden 64",
    ),
    Row("the same in bf16", "llm_step", "TRL / Troupe bf16, hidden 64"),
    Row(
        "training step, hidden 256 × 4 layers, fp32: speed relative to TRL",
        "llm_step",
        "TRL / Troupe fp32, hidden 256",
    ),
    Row("the same in bf16", "llm_step", "TRL / Troupe bf16, hidden 256"),
    Row(
        "generation with shared prefixes, many equal prompts: speed relative to without",
        "shared_prefix",
        "generate, unshared / shared, short prompts, many alike",
    ),
    Row(
        "update with packing, many equal prompts: speed relative to without",
        "shared_prefix",
        "update, unpacked / packed, short prompts, many alike",
    ),
    Row(
        "simple_spread, 1,024 native environments: speed relative to mpe2",
        "marl_environments",
        "native, 1,024 environments / mpe2, one parallel environment",
    ),
    Row("the same, steps per CPU second", "marl_environments", "native, 1,024 environments"),
    Row(
        "MAPPO on VMAS, fp32: speed relative to BenchMARL",
        "marl_training",
        "this trainer on VMAS, 2 x 256, fp32 / BenchMARL on VMAS, 2 x 256",
    ),
    Row(
        "the same in bf16",
        "marl_training",
        "this trainer on VMAS, 2 x 256, bf16 / BenchMARL on VMAS, 2 x 256",
    ),
    Row("`import troupe`", "imports", "import troupe"),
    Row("`troupe --help`", "imports", "troupe --help"),
    Row("reading of all presets", "imports", "all presets"),
    Row(
        "launch of `plan_path_duo` to its first point, through the whole stack",
        "first_point",
        "plan_path_duo, first point",
    ),
    Row(
        "launch of `spread_mappo` to its first point, through the whole stack",
        "first_point",
        "spread_mappo, first point",
    ),
    Row("dry run of `plan_path_duo`, until it has played", "first_point", "dry run, episode"),
    Row(
        "conversation with its policies, until the first prompt", "first_point", "conversation, first prompt"
    ),
    Row("`troupe.log` of 50 keys, median call", "client_ingest", "log call, median"),
    Row("`troupe.log` of 50 keys, to disk", "client_ingest", "to disk"),
    Row(
        "the same values readable through the API by another process",
        "client_ingest",
        "readable through the API",
    ),
    Row("call to socket, p95, 200 viewers of one run", "event_to_pixel", "200 viewers, call to socket, p95"),
    Row("call to pixel, p95, 200 viewers of one run", "event_to_pixel", "200 viewers, call to pixel, p95"),
    Row("first page of 10,000 runs, newest first", "dashboard", "newest first"),
    Row("first page of 10,000 runs, filtered by metric", "dashboard", "by metric"),
    Row("the same, filtered and ordered by config", "dashboard", "by config, ordered by config"),
    Row("series of 1,000,000 points, 1,500 drawn", "dashboard", "a series, 1,500 points drawn"),
    Row("search over 20,000 episodes by the API: a rare word", "search", "a rare word, API"),
    Row("the same: a word in nearly all, by role and reward", "search", "common, by role and reward, API"),
)


def table(folder: Path, names: Collection[str] = ()) -> str:
    """Return the table in Markdown, made from the results in a folder; of the rows with these names, or of all."""
    wanted = [row for row in ROWS if not names or row.name in names]
    rows = [(row, result) for row in wanted if (result := read_result(folder, row.benchmark))]
    if not rows:
        return NOTHING
    lines = ["| what | median (lowest to highest) | repeats | measured |", "|---|---|---:|---|"]
    lines += [
        f"| {row.label} | {text(row, result)} | {result['repeats']} | {origin(result)} |"
        for row, result in rows
    ]
    machines = dict.fromkeys(f"{result['cpu']}, {result['cores']} cores" for _, result in rows)
    return "\n".join([*lines, "", f"Measured on {'; '.join(machines)}."])


def text(row: Row, result: Mapping[str, Any]) -> str:
    """Return the figure or ratio of a row with its unit and spread. Raises KeyError if the result does not have it."""
    is_ratio = row.name in result["ratios"]
    figure = result["ratios" if is_ratio else "figures"][row.name]
    unit = "×" if is_ratio else figure["unit"]
    return f"{number(figure['median'])} {unit} ({number(figure['lowest'])} to {number(figure['highest'])})"


def origin(result: Mapping[str, Any]) -> str:
    """Return the date and the commit of a result, and what limits its value."""
    commit = (result["commit"] or "unknown")[:8]
    return ", ".join([result["date"][:10], f"`{commit}`", *_limits(result)])


def _limits(result: Mapping[str, Any]) -> Iterator[str]:
    if result["dirty"]:
        yield "with uncommitted changes"
    if (load := result["load"]["before"]) > MOST_LOAD:
        yield f"busy machine (load {load})"


def replaced(page: str, content: str) -> str:
    """Return a page with other content between the comments. Raises ValueError without them."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no part between {BEGIN} and {END}")
    return pattern.sub(lambda match: f"{BEGIN}\n{content}\n{END}", page)


def main() -> None:
    """Write both pages."""
    for path, names in PAGES.items():
        path.write_text(replaced(path.read_text(), table(RESULTS, names)))


if __name__ == "__main__":
    main()
