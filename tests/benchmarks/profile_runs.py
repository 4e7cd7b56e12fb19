"""Where a run's time goes: `python -m tests.benchmarks.profile_runs [PRESET ...] [--iterations 20] [--rate 200] [key=value ...]`.

Runs each preset (default: plan_path_duo and spread_mappo) with `workers.run --local` in one thread below py-spy, which notes the Python
stack of busy threads. A stack counts for the first part in PARTS with a matching frame. Prints the share of each part, the functions
in which the rest is spent, and the trainer's own times. A first run of one iteration, which makes the base model, is not counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.plan_path_duo import metrics
from tests.benchmarks.results import ROOT

PRESETS = ("plan_path_duo", "spread_mappo")
TIMES = ("rollout", "update", "sync", "iteration", "eval", "eval_sampled")
PARTS: dict[str, tuple[str, ...]] = {
    "start (imports, models)": ("<frozen importlib", "model_loading.py", "starting_point.py"),
    "evaluation": ("evaluate (workers/driver/synchronous.py", "evaluate_base (workers/driver/synchronous.py"),
    "reporting": (
        "workers/reporting/",
        "workers/telemetry/",
        "workers/driver/run_events.py",
        "workers/actors/episode_documents.py",
        "annotations.py",
    ),
    "checkpoints": ("checkpointing.py", "policy_checkpoint.py", "episode_checkpoint.py", "workers/storage/"),
    "publication of weights": ("publish (", "workers/actors/weights.py"),
    "environment": ("training_core/llm/environments/", "training_core/marl/environments/"),
    "generation": (
        "training_core/llm/generation/",
        "training_core/marl/rollouts.py",
        "training_core/marl/vector_runner.py",
    ),
    "backward": ("torch/_tensor.py", "torch/autograd/"),
    "optimiser": ("optimisation.py", "flat_adam.py", "torch/optim/"),
    "scoring (reference, mismatch)": (
        "_reference_logprobs (",
        "_measure_mismatch (",
        "_compute_proximal_logprobs (",
        "_score (",
    ),
    "packing": ("packing.py", "micro_batches.py", "training_groups.py", "marl/learning/batch.py"),
    "forward and loss": ("_loss (", "training_core/marl/learning/"),
    "workflow (turns, prompts)": (
        "training_core/llm/workflows/",
        "training_core/llm/agents/",
        "workers/actors/rollouts.py",
    ),
}
"""Part -> texts, one of which is in a frame, "FUNCTION (FILE:LINE)". The first part that matches counts."""
REST = "rest of Python"


def main(words: Sequence[str] | None = None) -> None:
    """Profile each preset and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="PRESET | key=value")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rate", type=int, default=200, help="samples a second")
    arguments = parser.parse_intermixed_args(words)
    overrides = [word for word in arguments.words if "=" in word]
    for preset in [word for word in arguments.words if "=" not in word] or PRESETS:
        with tempfile.TemporaryDirectory(prefix="troupe-profile-") as home:
            run(preset, Path(home), ["run.iterations=1", *overrides], [])
            stacks = Path(home) / "stacks"
            record = ["record", "--rate", str(arguments.rate), "--format", "raw", "--full-filenames"]
            sampler = [str(Path(sys.executable).with_name("py-spy")), *record, "-o", str(stacks), "--"]
            folder = run(preset, Path(home), [f"run.iterations={arguments.iterations}", *overrides], sampler)
            print("\n".join(report(preset, stacks.read_text().splitlines(), own_times(folder))), flush=True)


def run(preset: str, home: Path, overrides: Sequence[str], sampler: Sequence[str]) -> Path:
    """Run a preset in one process with one thread; returns its folder."""
    folder = home / f"run-{len(list(home.iterdir()))}"
    command = [sys.executable, "-m", "workers.run", "--preset", preset, "--local", "--home", str(home)]
    subprocess.run(
        [*sampler, *command, "--folder", str(folder), *overrides],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
    )
    return folder


def part_of(stack: str) -> str:
    """The part that a stack (frames separated by ";", the outermost first) counts for."""
    return next((part for part, texts in PARTS.items() if any(text in stack for text in texts)), REST)


def counted(lines: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Samples by part, and the innermost function of the samples of the rest."""
    parts: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        stack = stack.replace(f"{ROOT}/", "")
        part = part_of(stack)
        parts[part] += int(count)
        if part == REST:
            functions[stack.rpartition(";")[2]] += int(count)
    return parts, functions


def own_times(folder: Path) -> dict[str, float]:
    """Sums of the trainer's own times, in seconds."""
    sums: Counter[str] = Counter()
    for event in metrics(folder):
        for name in TIMES:
            sums[name] += event["values"].get(f"time/{name}", 0.0)
    return dict(sums)


def report(preset: str, lines: Sequence[str], times: dict[str, float]) -> Iterator[str]:
    """A table of shares, and the trainer's times."""
    parts, functions = counted(lines)
    total = parts.total()
    yield f"\n{preset}: {total:,} samples of busy threads"
    yield "| part | share of the samples | share without start and evaluation |"
    yield "|---|---:|---:|"
    outside = [part for part in parts if part.startswith(("start", "evaluation"))]
    inside = total - sum(parts[part] for part in outside)
    for part, count in parts.most_common():
        share = "" if part in outside else f"{count / inside:.1%}"
        yield f"| {part} | {count / total:.1%} | {share} |"
    yield "the rest: " + ", ".join(f"{name} {count / total:.1%}" for name, count in functions.most_common(5))
    yield "the trainer's own seconds: " + ", ".join(
        f"{name} {seconds:.1f}" for name, seconds in times.items()
    )


if __name__ == "__main__":
    main()
