"""The table of GPU figures: `python -m tests.gpu.table` prints it, `--write` puts it into docs/operate/gpu.md.

Only results of a card count. A figure without a result is "not measured".
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.ablation import ARMS, Curve, report
from tests.benchmarks.folders import ROOT
from tests.benchmarks.results import read_result
from tests.gpu.__main__ import RECORDED
from tests.gpu.registry import STEPS
from tests.gpu.results import FINISHED

PAGE = ROOT / "docs/operate/gpu.md"
BEGIN, END = "<!-- gpu figures: begin -->", "<!-- gpu figures: end -->"
MISSING = "not measured"


def number(name: str, form: str, factor: float = 1.0) -> Callable[[dict[str, Any]], str]:
    """A figure as text."""

    def text(figures: dict[str, Any]) -> str:
        value = figures.get(name)
        return MISSING if value is None else form.format(value * factor)

    return text


ROWS: tuple[tuple[str, str, Callable[[dict[str, Any]], str], str], ...] = (
    *(
        (
            f"generation, {size}, bf16",
            f"generation_{size.lower()}",
            number("tokens_per_second", "{:,.0f} tokens/s"),
            "",
        )
        for size in ("0.5B", "1.7B", "4B", "8B")
    ),
    *(
        (f"update, {size}, bf16", f"update_{size.lower()}", number("mfu", "{:.0f} % MFU", 100), goal)
        for size, goal in (("0.5B", ""), ("1.7B", "≥ 40 %"), ("4B", ""), ("8B", ""))
    ),
    ("AT-GRPO step, 1.7B", "at_grpo_step", number("tokens_per_second", "{:,.0f} tokens/s"), "≥ 3,000"),
    ("its publication", "at_grpo_step", number("share_of_publication", "{:.1f} % of the step", 100), "≤ 2 %"),
    (
        "four LoRA roles on one base",
        "shared_base",
        number("peak_of_four_roles_to_one", "{:.2f} × the peak memory of one"),
        "≤ 1.1",
    ),
    (
        "MAPPO, worlds on the device",
        "marl_speed",
        number("steps_per_second", "{:,.0f} steps/s"),
        "≥ 1,000,000",
    ),
    ("32 seeds of MAPPO", "marl_seeds", number("time_to_one_seed", "{:.2f} × the time of one"), "≤ 2"),
    ("step of 0.5B, relative to TRL", "trl", number("ratio", "{:.2f} × TRL's completions/s"), ""),
)
"""Label, step, text of its figures, goal."""


def make_table(out: Path) -> str:
    """The table in Markdown, with the cards and commits of its results."""
    results = {name: result for name in STEPS if (result := card_result(out, name))}
    if not results:
        return "None is recorded."
    lines = ["| | measured | goal |", "|---|---|---|"]
    for label, step, text, goal in ROWS:
        measured = text(results[step]["figures"]) if step in results else MISSING
        lines.append(f"| {label} | {measured} | {goal} |")
    machines = sorted({_machine(result["machine"]) for result in results.values()})
    return "\n".join([*lines, "", f"Measured on {'; '.join(machines)}.", *_learning(results)])


def card_result(out: Path, step: str) -> dict[str, Any] | None:
    """A step's result if it ran to its end on a card."""
    result = read_result(out, step)
    complete = result is not None and result["state"] == FINISHED and not result["small"]
    return result if complete else None


def write_table(readme: Path, table: str) -> None:
    """Replace the part between the marks. Raises SystemExit without them."""
    text = readme.read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{readme} has no part between {BEGIN} and {END}")
    readme.write_text(pattern.sub(lambda match: f"{BEGIN}\n{table}\n{END}", text))


def _machine(machine: dict[str, Any]) -> str:
    return (
        f"{machine['card']}, driver {machine['driver']}, CUDA {machine['cuda']}, torch {machine['torch']}, "
        f"commit {(machine['commit'] or 'unknown')[:8]}"
    )


def _learning(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The ablation's table, if every arm has a result."""
    curves: dict[str, list[Curve]] = {arm: [] for arm in ARMS}
    for result in results.values():
        if result["options"].get("arm") in curves:
            curves[result["options"]["arm"]].append(_curve(result["figures"]))
    if all(curves.values()):
        yield ""
        yield from report(curves)


def _curve(figures: dict[str, Any]) -> Curve:
    curve = Curve(swapped=figures.get("swapped", {}))
    for row in figures["rows"]:
        curve.answers[row["iteration"]] = row["answers"]
        for kind in curve.success:
            curve.success[kind][row["iteration"]] = row[kind]
    return curve


if __name__ == "__main__":
    table = make_table(RECORDED)
    if "--write" in sys.argv[1:]:
        write_table(PAGE, table)
    print(table)
