"""The asynchronous loop, measured: `python -m tests.benchmarks.asynchronous [pace | learning | evaluation] [key=value ...]`.

pace: seconds per iteration with rollout.staleness = 1 over those of the synchronous loop, rollout and update workers
apart under Ray, the two taking turns so that both meet the same neighbours on the machine; and CPU seconds per iteration by kind of
process, which other load on the machine changes less. learning: held-out success
of the same run on fresh data, and on data up to 4 versions old with and without the decoupled loss. evaluation: seconds per iteration
of the synchronous loop while an evaluator plays (evaluation.mode = "beside") over those without evaluations, in turns. Prints tables
in Markdown; nothing here fails.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import psutil

from tests.benchmarks.local_runs import HOME, ROOT, command, environment, events, series
from training_core.config.files import read_preset

QUIET = ["evaluation.every=0", "checkpoint.every=0"]
WARM = 3
"""Iterations at the start that are not counted."""
POLL_SECONDS = 0.2
KINDS = ("RolloutWorker", "UpdateWorker", "RolloutCoordinator", "EnvWorker", "driver", "Ray")
"""Kinds of processes whose CPU time is printed; Ray: its servers and idle workers."""
LOSSES = {
    "synchronous": [],
    "staleness 4, decoupled": ["rollout.staleness=4", "algorithm.correction=decoupled"],
    "staleness 4, naive": ["rollout.staleness=4"],
}


BESIDE = ["checkpoint.every=0", "evaluation.mode=beside", "evaluation.every=8"]


def main(words: Sequence[str] | None = None) -> None:
    """Run, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["pace", "learning", "evaluation"])
    parser.add_argument(
        "--rounds", type=int, default=3, help="pace, evaluation: how often the two take turns"
    )
    parser.add_argument("--iterations", type=int, default=15, help="pace, evaluation: of each run")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="learning: of each run")
    parser.add_argument("--preset", default="plan_path_duo")
    parser.add_argument("--home", type=Path, default=HOME)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    asked = parser.parse_intermixed_args(words)
    parts = {"pace": pace, "learning": learning, "evaluation": evaluation}
    sys.stdout.write("\n".join(parts[asked.part](asked)) + "\n")


def pace(asked: argparse.Namespace) -> list[str]:
    """Seconds per iteration by loop, and their ratio."""
    seconds: dict[int, list[float]] = {0: [], 1: []}
    overlap: list[float] = []
    cpu: dict[int, list[Counter[str]]] = {0: [], 1: []}
    for turn in range(asked.rounds):
        for staleness in seconds:
            words = [
                f"run.iterations={asked.iterations}",
                f"rollout.staleness={staleness}",
                *apart(asked.preset),
                *QUIET,
            ]
            used: Counter[str] = Counter()
            name = f"pace-{staleness}-{turn}"
            folder = play(asked, name, [*words, *asked.overrides], local=False, used=used)
            cpu[staleness].append(used)
            seconds[staleness].extend(iterations(folder))
            if staleness:
                overlap.append(shared(folder))
    fresh, ahead = median(seconds[0]), median(seconds[1])
    return [
        "| | seconds per iteration (median) | of its updates, generation went on during |",
        "|---|---|---|",
        f"| synchronous | {fresh:.2f} | 0% |",
        f"| staleness 1 | {ahead:.2f} | {median(overlap):.0%} |",
        f"| ratio | {ahead / fresh:.2f} | |",
        "",
        f"| CPU seconds per iteration | {' | '.join(KINDS)} | sum |",
        f"|---|{'---|' * (len(KINDS) + 1)}",
        *(cpu_row(name, cpu[staleness]) for name, staleness in (("synchronous", 0), ("staleness 1", 1))),
    ]


def cpu_row(name: str, runs: Sequence[Counter[str]]) -> str:
    """The mean CPU seconds per iteration by kind of process."""
    means = [sum(used[kind] for used in runs) / len(runs) for kind in KINDS]
    return f"| {name} | {' | '.join(f'{value:.3f}' for value in means)} | {sum(means):.3f} |"


def learning(asked: argparse.Namespace) -> list[str]:
    """Held-out success by loss: of the base model, the best, and the mean of the last three evaluations."""
    lines = ["| | seed | base | best | last three | mean age of answers |", "|---|---|---|---|---|---|"]
    for name, words in LOSSES.items():
        for seed in asked.seeds:
            label = f"learning-{name.replace(' ', '-').replace(',', '')}-{seed}"
            folder = play(
                asked, label, [f"run.seed={seed}", *apart(asked.preset), *words, *asked.overrides], local=True
            )
            shares = series(folder, "eval_sampled/success")
            age = series(folder, "rollout/staleness")
            last = sum(shares[-3:]) / len(shares[-3:])
            lines.append(
                f"| {name} | {seed} | {shares[0]:.2f} | {max(shares):.2f} | {last:.2f} | {sum(age) / len(age):.1f} |"
            )
    return lines


def evaluation(asked: argparse.Namespace) -> list[str]:
    """Mean seconds per iteration with and without an evaluator, and their ratio: only some iterations meet an evaluation."""
    seconds: dict[str, list[float]] = {"no evaluation": [], "evaluator": []}
    for turn in range(asked.rounds):
        for name, words in zip(seconds, (QUIET, BESIDE), strict=True):
            label = f"evaluation-{len(words)}-{turn}"
            own = [f"run.iterations={asked.iterations}", *words, *asked.overrides]
            seconds[name].extend(iterations(play(asked, label, own, local=False)))
    means = {name: sum(values) / len(values) for name, values in seconds.items()}
    rows = [f"| {name} | {value:.2f} |" for name, value in means.items()]
    ratio = means["evaluator"] / means["no evaluation"]
    return ["| | seconds per iteration (mean) |", "|---|---|", *rows, f"| ratio | {ratio:.2f} |"]


def play(
    asked: argparse.Namespace,
    name: str,
    words: Iterable[str],
    *,
    local: bool,
    used: Counter[str] | None = None,
) -> Path:
    """A run of the preset in a process of its own, with one thread per worker; its folder. `used` gets the CPU seconds per iteration
    by kind of process, without the first iterations.
    """
    folder: Path = asked.home / "runs" / f"{name}-{os.getpid()}"
    options = ["--local"] if local else ["--run", name]
    with subprocess.Popen(
        command(asked.preset, asked.home, folder, [*options, *words]),
        cwd=ROOT,
        env=environment(),
        stdout=sys.stderr,
    ) as run:
        if used is not None:
            used.update(watch(run, folder, asked.iterations))
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, run.args)
    return folder


def watch(run: "subprocess.Popen[bytes]", folder: Path, iterations: int) -> dict[str, float]:
    """CPU seconds per iteration of a run's processes by kind, without its first iterations and its last one, when workers end."""
    first: tuple[int, Counter[str]] | None = None
    last: tuple[int, Counter[str]] = (0, Counter())
    while run.poll() is None:
        try:
            run.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            completed = len(list(completions(folder)))
            if last[0] < completed < iterations:
                last = completed, cpu_seconds(run.pid)
                first = first or (last if completed >= WARM else None)
    if first is None or last[0] == first[0]:
        return {}
    return {kind: (last[1][kind] - first[1][kind]) / (last[0] - first[0]) for kind in KINDS}


def cpu_seconds(pid: int) -> Counter[str]:
    """CPU seconds so far by kind of process, of a driver and all processes below it."""
    seconds: Counter[str] = Counter()
    driver = psutil.Process(pid)
    for process in (driver, *driver.children(recursive=True)):
        try:
            title, times = " ".join(process.cmdline()[:1]), process.cpu_times()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        kind = next(
            (kind for kind in KINDS if f"ray::{kind}" in title), "driver" if process.pid == pid else "Ray"
        )
        seconds[kind] += times.user + times.system
    return seconds


def apart(preset: str) -> list[str]:
    """Each policy's rollout and update workers in processes of their own, all of which fit on two cores."""
    names = read_preset(preset)["policies"]
    share = 0.8 / len(names) / 2
    return [
        f"policies.{name}.devices.{word}"
        for name in names
        for word in ("placement=apart", f"rollout_cpus={share:.2f}", f"update_cpus={share:.2f}")
    ]


def iterations(folder: Path) -> list[float]:
    """Seconds from the end of one iteration to the end of the next, without the first ones."""
    ends = list(completions(folder))
    return [after - before for before, after in zip(ends[WARM:], ends[WARM + 1 :], strict=False)]


def completions(folder: Path) -> Iterable[float]:
    """The times at which iterations ended, so far."""
    return (event["time"] for event in events(folder, "metrics") if "time/iteration" in event["values"])


def shared(folder: Path) -> float:
    """The share of update workers' time during which some rollout worker generated."""
    spans = [(event["phase"], event["start"], event["end"]) for event in events(folder, "phase")]
    updates = [(start, end) for phase, start, end in spans if phase == "update"]
    rollouts = [(start, end) for phase, start, end in spans if phase == "rollout"]
    together = sum(covered(span, rollouts) for span in updates)
    return together / sum(end - start for start, end in updates)


def covered(span: tuple[float, float], others: Sequence[tuple[float, float]]) -> float:
    """Seconds of a span during which at least one of the others lasts."""
    seconds, reached = 0.0, span[0]
    for start, end in sorted(others):
        begin, stop = max(start, reached), min(end, span[1])
        if stop > begin:
            seconds, reached = seconds + stop - begin, stop
    return seconds


if __name__ == "__main__":
    main()
