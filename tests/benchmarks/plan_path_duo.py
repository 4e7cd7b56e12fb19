"""The demonstration experiment, measured: `python -m tests.benchmarks.plan_path_duo [--seeds 0 1 2] [key=value ...]`.

Trains the preset plan_path_duo once per seed with `python -m workers.run --local` (all of it in one process, on one
core), reads the run's own events, swaps the trained policies between the roles, and prints tables in Markdown. Nothing
here fails: a figure that falls short is printed as such. Seconds of training are rollout, update and hand-over;
evaluations are not counted.
"""

import argparse
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.benchmarks.local_runs import HOME, events, train

GREEDY, SAMPLED = "eval/success", "eval_sampled/success"
BASE_AT_MOST, GOAL, SECONDS, LAST = 0.35, 0.90, 180.0, 3


@dataclass
class Figures:
    """What one run showed."""

    seed: int
    cpu_seconds: float
    greedy: dict[int, float] = field(default_factory=dict)
    """Share of held-out tasks solved, by iteration."""
    sampled: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    """Seconds of training up to and with an iteration."""
    swapped: dict[str, float] = field(default_factory=dict)

    @property
    def reached(self) -> float | None:
        """Seconds of training until sampled play first solved GOAL of the tasks."""
        there = [self.seconds[step] for step, share in sorted(self.sampled.items()) if step and share >= GOAL]
        return there[0] if there else None

    def holds(self) -> bool:
        """Whether this run shows what is claimed of the preset."""
        last = sorted(self.greedy)[-LAST:]
        stays = all(min(self.greedy[step], self.sampled[step]) >= GOAL for step in last)
        return (
            self.sampled[0] <= BASE_AT_MOST and stays and self.reached is not None and self.reached <= SECONDS
        )


def main(words: Sequence[str] | None = None) -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--home", type=Path, default=HOME)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    arguments = parser.parse_intermixed_args(words)
    runs = [measure(seed, arguments.home, arguments.overrides) for seed in arguments.seeds]
    sys.stdout.write("\n".join(report(runs)) + "\n")


def measure(seed: int, home: Path, overrides: list[str]) -> Figures:
    """One run in a process of its own, with one thread."""
    folder = home / "runs" / f"plan_path_duo-seed-{seed}-{os.getpid()}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    train("plan_path_duo", home, folder, [f"run.seed={seed}", *overrides])
    figures = Figures(seed, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    read_events(folder, figures)
    figures.swapped = play_swapped(folder)
    return figures


def read_events(folder: Path, figures: Figures) -> None:
    """Evaluations and times from the run's spool."""
    spent = 0.0
    for event in events(folder, "metrics"):
        step, values = event["step"], event["values"]
        figures.greedy |= {step: values[GREEDY]} if GREEDY in values else {}
        figures.sampled |= {step: values[SAMPLED]} if SAMPLED in values else {}
        if "time/iteration" in values:
            spent += values["time/iteration"]
            figures.seconds[step] = spent


def play_swapped(folder: Path) -> dict[str, float]:
    """Held-out success, by kind, when each role is played by the policy that was trained for the other."""
    from transformers.utils.logging import disable_progress_bar

    from training_core.config.files import parse_config, read_toml
    from training_core.llm.base_models.base_evaluation import KINDS, evaluation_metrics
    from training_core.llm.environments.host import EnvironmentHost
    from training_core.llm.generation.torch_engine import TorchEngine
    from training_core.llm.models.loading import load_model, load_tokenizer
    from training_core.llm.workflows.context import RolloutContext
    from training_core.llm.workflows.episodes import play_independent

    disable_progress_bar()
    config = parse_config(read_toml((folder / "config.toml").read_text()))
    last = max((folder / "checkpoints").glob("iteration-*"))
    names = list(config.used_policies)
    engines = {name: TorchEngine(load_model(last / name), load_tokenizer(last / name)) for name in names}
    swapped = dict(zip(names, (engines[name] for name in [*names[1:], names[0]]), strict=True))
    table = RolloutContext(
        config,
        EnvironmentHost(config.environment, 0),
        {name: engine.generate for name, engine in swapped.items()},
        {name: renderer(engine.tokenizer) for name, engine in swapped.items()},
        attempt=0,
        iteration=0,
    )
    tasks = range(config.evaluation.episodes)
    return {
        kind: evaluation_metrics(kind, play_independent(tasks, table, kind))[f"{kind}/success"]
        for kind in KINDS
    }


def renderer(tokenizer: Any) -> Callable[[Any], list[int]]:
    """Chat messages -> prompt ids."""

    @cache
    def ids(seen: tuple[tuple[str, str], ...]) -> list[int]:
        messages = [{"role": role, "content": content} for role, content in seen]
        return list(
            tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)["input_ids"]
        )

    return lambda messages: ids(tuple((message["role"], message["content"]) for message in messages))


def report(runs: list[Figures]) -> list[str]:
    """Two tables: every evaluation, then what is claimed of each run."""
    head = " | ".join(f"seed {run.seed}: sampled | greedy | training s" for run in runs)
    lines = [f"| iteration | {head} |", "|---" * (1 + 3 * len(runs)) + "|"]
    for step in sorted({step for run in runs for step in run.sampled}):
        cells = [
            f"{run.sampled.get(step, float('nan')):.2f} | {run.greedy.get(step, float('nan')):.2f} | "
            f"{run.seconds.get(step, 0.0):.0f}"
            for run in runs
        ]
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| seed | base sampled / greedy | 0.90 sampled after | lowest of the last three, sampled / greedy ",
    ]
    lines[-1] += "| swapped, sampled / greedy | CPU s | claims |"
    lines.append("|---" * 7 + "|")
    return lines + [summary(run) for run in runs]


def summary(run: Figures) -> str:
    """One run's row."""
    last = sorted(run.greedy)[-LAST:]
    lowest = f"{min(run.sampled[step] for step in last):.2f} / {min(run.greedy[step] for step in last):.2f}"
    reached = "never" if run.reached is None else f"{run.reached:.0f} s"
    swapped = f"{run.swapped['eval_sampled']:.2f} / {run.swapped['eval']:.2f}"
    verdict = "hold" if run.holds() else "fall short"
    return (
        f"| {run.seed} | {run.sampled[0]:.2f} / {run.greedy[0]:.2f} | {reached} | {lowest} | {swapped} "
        f"| {run.cpu_seconds:.0f} | {verdict} |"
    )


if __name__ == "__main__":
    main()
