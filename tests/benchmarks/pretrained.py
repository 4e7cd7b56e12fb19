"""A pretrained model learns: `python -m tests.benchmarks.pretrained [--seeds 0 1] [--variants lora full grpo] [--presets ...]`.

Trains each preset once per variant and seed with `python -m workers.run --local`: everything in one process with one thread.
`lora` is the preset as it is, `full` trains all weights, `grpo` compares whole episodes instead of answers to one prompt.
A finished run is not repeated: its folder below --home is read. Prints a table in Markdown with 95 % Wilson intervals, and
what was said before and after. `--svg FILE` draws success against iterations. A figure that falls short is printed as such.
"""

import argparse
import json
import math
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.local_runs import HOME, events, train

POLICIES = {"plan_path_pretrained": ("planner", "executor"), "arithmetic_pretrained": ("solver", "checker")}
FULL = {"adapter.type": "none", "learner.learning_rate": "2e-5", "learner.final_learning_rate": "2e-6"}
GRPO = {
    "algorithm.type": "grpo",
    "workflow": '{type = "episodes"}',
    "resources.environments_per_worker": "128",
}
COLOURS = {"lora": "#2563eb", "full": "#d97706", "grpo": "#059669"}
GAIN = 0.3
"""Success over the base model's that is claimed, with intervals that do not touch."""
COST = "cost.json"
WIDTH, HEIGHT, LEFT, TOP, ROOM = 420, 240, 52, 30, 480
"""Of a panel, its place, and what the next one is further to the right: pixels."""


@dataclass(frozen=True)
class Run:
    """What one run showed."""

    preset: str
    variant: str
    seed: int
    greedy: dict[int, float]
    """Share of held-out tasks that greedy play solved, by iteration."""
    episodes: int
    """Held-out tasks of an evaluation."""
    curve: list[float]
    """Success of the training episodes of each iteration."""
    tokens_per_second: float
    """Tokens sampled per second of rollout, the mean of the iterations."""
    cost: dict[str, float]
    """cpu_minutes, memory_gib."""

    @property
    def last(self) -> int:
        """The last evaluation's iteration."""
        return max(self.greedy)

    @property
    def holds(self) -> bool:
        """Whether success is GAIN above the base model's, with intervals that do not touch."""
        base, after = self.greedy[0], self.greedy[self.last]
        apart = wilson(after, self.episodes)[0] > wilson(base, self.episodes)[1]
        return apart and after - base >= GAIN


def main(words: Sequence[str] | None = None) -> None:
    """Train what is missing, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--variants", nargs="+", choices=COLOURS, default=list(COLOURS))
    parser.add_argument("--presets", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--home", type=Path, default=HOME)
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args(words)
    runs = [
        trained(preset, variant, seed, arguments.home)
        for preset in arguments.presets
        for variant in arguments.variants
        for seed in arguments.seeds
    ]
    print("\n".join(table(runs)))
    for preset in arguments.presets:
        print(
            "\n".join(
                ["", f"{preset}, held-out task 0", "", *said(folder_of(preset, "lora", 0, arguments.home))]
            )
        )
    if arguments.svg:
        arguments.svg.write_text(drawn(runs))


def folder_of(preset: str, variant: str, seed: int, home: Path) -> Path:
    """Where a run is, or will be."""
    return home / "runs" / f"{preset}-{variant}-{seed}"


def overrides(preset: str, variant: str) -> list[str]:
    """What a variant changes in a preset."""
    changes: dict[str, str] = GRPO if variant == "grpo" else {}
    if variant == "full":
        changes = {
            f"policies.{name}.{path}": value for name in POLICIES[preset] for path, value in FULL.items()
        }
    return [f"{path}={value}" for path, value in changes.items()]


def trained(preset: str, variant: str, seed: int, home: Path) -> Run:
    """One run, made first where it is missing."""
    folder = folder_of(preset, variant, seed, home)
    if not (folder / COST).is_file():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        train(preset, home, folder, [f"run.seed={seed}", *overrides(preset, variant)])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        minutes = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60
        # The largest child so far: runs of one call must not shrink.
        cost = {"cpu_minutes": minutes, "memory_gib": after.ru_maxrss / 2**20}
        (folder / COST).write_text(json.dumps(cost))
    return read(preset, variant, seed, folder)


def read(preset: str, variant: str, seed: int, folder: Path) -> Run:
    """A finished run's figures."""
    greedy: dict[int, float] = {}
    curve: list[float] = []
    speeds: list[float] = []
    for event in events(folder, "metrics"):
        values = event["values"]
        if "eval/success" in values:
            greedy[event["step"]] = values["eval/success"]
        if "rollout/tokens_per_second" in values:
            speeds.append(values["rollout/tokens_per_second"])
        if "train/success" in values:
            curve.append(values["train/success"])
    episodes = int(told(folder, "evaluation", "episodes"))
    cost = json.loads((folder / COST).read_text())
    return Run(preset, variant, seed, greedy, episodes, curve, mean(speeds), cost)


def told(folder: Path, section: str, name: str) -> Any:
    """A value of the run's config."""
    import tomllib

    return tomllib.loads((folder / "config.toml").read_text())[section][name]


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, JASA 1927)."""
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return centre - half, centre + half


def interval(share: float, count: int) -> str:
    """`0.15 (0.10 to 0.22)`."""
    low, high = wilson(share, count)
    return f"{share:.2f} ({low:.2f} to {high:.2f})"


def table(runs: Sequence[Run]) -> list[str]:
    """A row per run."""
    head = [
        "preset",
        "variant",
        "seed",
        "base",
        "after",
        "iterations",
        "CPU",
        "memory",
        "sampled tokens/s",
        "+0.3",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for run in runs:
        cells = [
            f"`{run.preset}`", run.variant, str(run.seed), interval(run.greedy[0], run.episodes),
            interval(run.greedy[run.last], run.episodes), str(run.last),
            f"{run.cost['cpu_minutes']:.0f} min", f"{run.cost['memory_gib']:.1f} GiB",
            f"{run.tokens_per_second:.0f}", "holds" if run.holds else "falls short",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def said(folder: Path) -> list[str]:
    """What the roles saw and said at the first held-out task, before and after training."""
    probes = [
        event for event in events(folder, "episode") if event["kind"] == "eval" and event["task"] == "eval-0"
    ]
    lines = []
    for event in probes[:1] + probes[-1:]:
        lines.append(f"after iteration {event['iteration']}: {event['outcome']}")
        lines += [
            f"    {turn['role']}: {turn['messages'][-1]['content']} -> {turn['candidates'][0]['text']}"
            for turn in event["turns"]
        ]
    return lines


def drawn(runs: Sequence[Run]) -> str:
    """Success of training episodes against iterations, a panel for each preset."""
    presets = list(dict.fromkeys(run.preset for run in runs))
    width = ROOM * len(presets)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + TOP + 60}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{HEIGHT + TOP + 60}" fill="white"/>']  # fmt: skip
    for place, preset in enumerate(presets):
        shown = [run for run in runs if run.preset == preset]
        parts += panel(preset, shown, LEFT + ROOM * place)
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(preset: str, runs: Sequence[Run], left: int) -> list[str]:
    """Axes, a line per run, the legend."""
    most = max(len(run.curve) for run in runs)
    bottom = TOP + HEIGHT
    parts = [f'<text x="{left}" y="{TOP - 10}" font-weight="bold">{preset}</text>']
    for tenths in range(0, 11, 2):
        y = bottom - HEIGHT * tenths / 10
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y}" y2="{y}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{tenths / 10:.1f}</text>')
    for quarter in range(5):
        x = left + WIDTH * quarter / 4
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{most * quarter / 4:.0f}</text>')
    title = "iterations, success of training episodes (mean of three)"
    parts.append(f'<text x="{left + WIDTH / 2}" y="{bottom + 34}" text-anchor="middle">{title}</text>')
    for run in runs:
        points = " ".join(
            f"{left + WIDTH * iteration / most:.1f},{bottom - HEIGHT * share:.1f}"
            for iteration, share in enumerate(smoothed(run.curve), 1)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[run.variant]}" stroke-width="1.6"/>'
        )
    for place, variant in enumerate(dict.fromkeys(run.variant for run in runs)):
        x = left + 90 * place
        parts.append(
            f'<line x1="{x}" x2="{x + 18}" y1="{bottom + 48}" y2="{bottom + 48}" stroke="{COLOURS[variant]}" stroke-width="2"/>'
        )
        parts.append(f'<text x="{x + 24}" y="{bottom + 52}">{variant}</text>')
    return parts


def smoothed(shares: Sequence[float], window: int = 3) -> list[float]:
    """The mean success of each iteration and those before it, `window` in all: an iteration plays few tasks."""
    return [mean(shares[max(0, place - window + 1) : place + 1]) for place in range(len(shares))]


if __name__ == "__main__":
    main()
