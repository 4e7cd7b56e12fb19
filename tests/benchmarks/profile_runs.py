"""Where a run's time goes: `python -m tests.benchmarks.profile_runs [PRESET ...] [--iterations N] [--stacks FOLDER] [key=value ...]`.

Runs each preset (default: plan_path_duo and spread_mappo) with `workers.run --local`, one thread for each operation, below py-spy, which
notes the Python stacks of busy threads. A stack counts for the first part in PARTS with a matching frame. Prints for each part its
share, and the functions of Troupe's in which most of it is spent; then the trainer's own times. A first run of one iteration, which
makes the base model, is not counted. On a machine with other load the shares are still those of busy time.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.local_runs import ROOT, events, train

PRESETS = {"plan_path_duo": 20, "spread_mappo": 100}
"""Preset -> iterations; other presets have 20."""
WAITING = ("threading.py:", "selectors.py:", "_worker (")
"""Texts of innermost frames in which a thread waits although the system calls it busy."""
OWN = re.compile(r"([^\s;]+) \(((?:training_core|workers)/[\w/]+\.py):\d+\)")
"""A frame of Troupe's: function and file."""
START, REST = "start and end (imports, models)", "rest of Python"
OUTSIDE = (START, "evaluation")
"""Parts that are not training."""
TIMES = ("rollout", "update", "sync", "iteration", "eval", "eval_sampled")
PARTS: dict[str, tuple[str, ...]] = {
    START: ("<frozen importlib", "model_loading.py", "starting_point.py"),
    "evaluation": ("_play (workers/driver/evaluations.py",),
    "reporting": (
        "workers/reporting/",
        "workers/telemetry/",
        "workers/driver/run_events.py",
        "workers/actors/coordinator.py",
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
    "backward": ("torch/_tensor.py", "torch/autograd/graph.py", "torch/autograd/__init__.py"),
    "optimiser": ("optimisation.py", "flat_adam.py", "torch/optim/"),
    "scoring (reference, mismatch)": (
        "_reference_logprobs (",
        "_measure_mismatch (",
        "_compute_proximal_logprobs (",
        "_score (",
    ),
    "packing": ("packing.py", "training_groups.py", "marl/learning/batch.py"),
    "forward and loss": ("_loss (", "training_core/marl/learning/"),
    "workflow (turns, prompts)": (
        "training_core/llm/workflows/",
        "training_core/llm/agents/",
        "workers/actors/rollouts.py",
    ),
}
"""Part -> texts, one of which is in a frame, "FUNCTION (FILE:LINE)". The first part that matches counts."""


def main(words: Sequence[str] | None = None) -> None:
    """Profile each preset and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="PRESET | key=value")
    parser.add_argument("--iterations", type=int, help="of each run")
    parser.add_argument("--rate", type=int, default=200, help="samples a second")
    parser.add_argument(
        "--stacks", type=Path, help="folder for the stacks, which programs for flame graphs read"
    )
    arguments = parser.parse_intermixed_args(words)
    overrides = [word for word in arguments.words if "=" in word]
    for preset in [word for word in arguments.words if "=" not in word] or PRESETS:
        iterations = arguments.iterations or PRESETS.get(preset, 20)
        with tempfile.TemporaryDirectory(prefix="troupe-profile-") as home:
            folders = Path(home) / "first", Path(home) / "run"
            train(preset, Path(home), folders[0], ["run.iterations=1", *overrides])
            stacks = Path(home) / f"{preset}.txt"
            record = ["record", "--rate", str(arguments.rate), "--format", "raw", "--full-filenames"]
            sampler = [str(Path(sys.executable).with_name("py-spy")), *record, "-o", str(stacks), "--"]
            train(preset, Path(home), folders[1], [f"run.iterations={iterations}", *overrides], sampler)
            if arguments.stacks:
                arguments.stacks.mkdir(parents=True, exist_ok=True)
                shutil.copy(stacks, arguments.stacks)
            print(
                "\n".join(report(preset, iterations, stacks.read_text().splitlines(), own_times(folders[1]))),
                flush=True,
            )


def part_of(stack: str) -> str:
    """The part that a stack (frames separated by ";", the outermost first) counts for. The interpreter's own work has no frames."""
    if not stack:
        return START
    return next((part for part, texts in PARTS.items() if any(text in stack for text in texts)), REST)


def counted(lines: Iterable[str]) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Samples by part, and for each part by the innermost function of Troupe's. Waiting threads do not count."""
    parts: Counter[str] = Counter()
    functions: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        stack, _, count = line.rpartition(" ")
        stack = stack.replace(f"{ROOT}/", "")
        if any(text in stack.rpartition(";")[2] for text in WAITING):
            continue
        part = part_of(stack)
        parts[part] += int(count)
        own = OWN.findall(stack)
        functions[part][f"{own[-1][0]} ({own[-1][1]})" if own else "none of Troupe's"] += int(count)
    return parts, functions


def own_times(folder: Path) -> dict[str, float]:
    """Sums of the trainer's own times, in seconds."""
    sums: Counter[str] = Counter()
    for event in events(folder, "metrics"):
        for name in TIMES:
            sums[name] += event["values"].get(f"time/{name}", 0.0)
    return dict(sums)


def report(preset: str, iterations: int, lines: Sequence[str], times: dict[str, float]) -> Iterator[str]:
    """A table of shares, and the trainer's times."""
    parts, functions = counted(lines)
    inside = sum(count for part, count in parts.items() if part not in OUTSIDE)
    yield f"\n{preset}, {iterations} iterations: {parts.total():,} samples, {inside:,} without {' and '.join(OUTSIDE)}"
    yield "| part | share of all | share of training | most of it in |"
    yield "|---|---:|---:|---|"
    for part, count in parts.most_common():
        share = "" if part in OUTSIDE else f"{count / inside:.1%}"
        most = ", ".join(f"{name} {own / count:.0%}" for name, own in functions[part].most_common(3))
        yield f"| {part} | {count / parts.total():.1%} | {share} | {most} |"
    yield "the trainer's own seconds: " + ", ".join(
        f"{name} {seconds:.1f}" for name, seconds in times.items()
    )


if __name__ == "__main__":
    main()
