"""The share of the publication of weights in a training step: `python -m tests.benchmarks.publication [SIZE ...]`.

An update worker and a rollout worker of one policy run as actors on a private Ray cluster, with one thread each. A step samples a fixed
number of tokens, updates once and publishes the weights, one after another as in synchronous training. Models have random weights.
For every size the program prints medians of wall-clock seconds and means of CPU seconds (of both workers and this process) of the
parts of a step, and the share of the publication; shares above 2 % are marked. `--stages` prints the parts of the publication itself,
in this process.

All sizes take about five minutes on two idle cores.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import psutil
import ray
import torch

from tests.benchmarks.results import timed
from tests.gpu.models import Size, make_model, make_tokenizer
from tests.gpu.tasks import make_groups, make_prompts
from training_core.config.files import load_config
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.loading import DTYPES
from training_core.llm.models.lora import trained_weights
from workers.actors.members import Member, Spawner
from workers.actors.remote_policy import RemotePolicy
from workers.actors.weights import pack, unpack
from workers.sizing.placement import place

POLICY = "planner"
BOUND = 0.02
"""Largest share of a step that the publication should take."""


@dataclass(frozen=True)
class Shape:
    """A model and the data of one step."""

    size: Size
    prompts: int = 32
    candidates: int = 8
    prompt_tokens: int = 32
    answer_tokens: int = 16


SHAPES = {
    "0.2M": Shape(Size(64, 3, 4, 4, 192, 512, tied=True)),
    "10M": Shape(Size(256, 8, 8, 4, 1024, 8192, tied=True)),
    "100M": Shape(Size(768, 12, 12, 4, 2048, 32_000, tied=True), prompts=8, candidates=4),
}
"""By number of parameters. The step of the largest model is short, which makes its share larger than in practice."""


@dataclass
class Part:
    """One part of a step, over the repeats."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def main(words: Sequence[str] | None = None) -> None:
    """Measure the sizes and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"default: {', '.join(SHAPES)}")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--stages", action="store_true", help="the parts of a publication, in this process")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.sizes if name not in SHAPES]
    if unknown:
        parser.error(f"no such size: {', '.join(unknown)}; sizes are {', '.join(SHAPES)}")
    torch.set_num_threads(1)
    measure = stages if asked.stages else steps
    with private_ray():
        for line in measure(asked.sizes or list(SHAPES), asked.precision, asked.repeats):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


def steps(sizes: Sequence[str], precision: str, repeats: int) -> Iterator[str]:
    """Rows of seconds of a step's parts, and the share of the publication."""
    yield "| parameters | rollout | update | publication | its share | CPU: rollout | update | publication | its share |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in sizes:
        parts = measured_step(SHAPES[name], precision, repeats)
        wall = [median(part.wall) for part in parts.values()]
        cpu = [mean(part.cpu) for part in parts.values()]
        cells = [*map(seconds, wall), share(wall), *map(seconds, cpu), share(cpu)]
        yield f"| {name}, {precision} | {' | '.join(cells)} |"


def stages(sizes: Sequence[str], precision: str, repeats: int) -> Iterator[str]:
    """Rows of CPU milliseconds of the parts of a publication."""
    yield "| parameters | names and tensors | pack | put | get | unpack | load | sum |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in sizes:
        parts = measured_stages(SHAPES[name].size, precision, repeats)
        cells = [f"{median(values) * 1e3:.2f}" for values in parts.values()]
        total = sum(median(values) for values in parts.values())
        yield f"| {name}, {precision} | {' | '.join(cells)} | {total * 1e3:.2f} |"


def measured_step(shape: Shape, precision: str, repeats: int) -> dict[str, Part]:
    """Seconds of rollout, update and publication, without the first step."""
    parts = {name: Part() for name in ("rollout", "update", "publication")}
    with tempfile.TemporaryDirectory(prefix="publication-") as folder, policy(shape.size, precision, Path(folder)) as (
        proxy,
        members,
    ):  # fmt: skip
        processes = [psutil.Process(ray.get(member.handle.ping.remote())) for member in members]
        prompts = make_prompts(shape.prompts, shape.candidates, shape.prompt_tokens, shape.size.vocabulary)
        settings = SamplingSettings(max_tokens=shape.answer_tokens)
        for version in range(repeats + 1):
            generated = measured(parts["rollout"], processes, proxy.generate, prompts, settings, version)
            groups = make_groups(prompts, generated.answers)
            measured(parts["update"], processes, proxy.update, groups, version + 1, version, set())
            measured(parts["publication"], processes, proxy.publish, version + 1, version + 1)
    return {name: Part(part.wall[1:], part.cpu[1:]) for name, part in parts.items()}


def measured_stages(size: Size, precision: str, repeats: int) -> dict[str, list[float]]:
    """CPU seconds of the parts of a publication, without the first one."""
    learnt, served = (
        make_model("qwen2", size, torch.device("cpu"), DTYPES[precision], seed=seed) for seed in (0, 1)
    )
    engine = TorchEngine(served, make_tokenizer(size.vocabulary))
    times: dict[str, list[float]] = {name: [] for name in ("names", "pack", "put", "get", "unpack", "load")}

    def stage(name: str, act: Callable[..., Any], *arguments: Any) -> Any:
        result: list[Any] = []
        times[name].append(timed(lambda: result.append(act(*arguments)))[0])
        return result[0]

    for version in range(repeats + 1):
        weights = stage("names", trained_weights, learnt)
        reference = stage("put", ray.put, stage("pack", pack, weights, version))
        tensors = stage("unpack", unpack, stage("get", ray.get, reference))
        stage("load", engine.load_weights, tensors, version)
        del tensors, reference
    return {name: values[1:] for name, values in times.items()}


@contextmanager
def policy(size: Size, precision: str, folder: Path) -> Iterator[tuple[RemotePolicy, list[Member]]]:
    """A policy with an update worker and a rollout worker that have started."""
    make_model("qwen2", size, torch.device("cpu")).save_pretrained(folder / "model")
    make_tokenizer(size.vocabulary).save_pretrained(folder / "model")
    fields = {
        "model": str(folder / "model"),
        "devices.placement": "apart",
        "learner.precision": precision,
        "learner.learning_rate": 1e-6,
    }
    config = load_config(
        "plan_path_duo", {f"policies.{POLICY}.{name}": value for name, value in fields.items()}
    )
    placement, spawner = place(config), Spawner(config, folder, f"publication-{os.getpid()}", None)
    rollouts, updaters = (
        [spawner.member(slot) for slot in placement.of(kind, POLICY)] for kind in ("rollout", "update")
    )
    proxy = RemotePolicy(rollouts, updaters)
    try:
        proxy.start(None)
        yield proxy, [*rollouts, *updaters]
    finally:
        for member in (*rollouts, *updaters):
            ray.kill(member.handle)


def measured(
    part: Part, processes: Sequence[psutil.Process], act: Callable[..., Any], *arguments: Any
) -> Any:
    """The result of a call; its seconds are added to `part`."""
    cpu, wall = cpu_seconds(processes), time.perf_counter()
    result = act(*arguments)
    part.wall.append(time.perf_counter() - wall)
    part.cpu.append(cpu_seconds(processes) - cpu)
    return result


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds of the workers, with a resolution of 10 ms, and of this process."""
    times = [process.cpu_times() for process in processes]
    return time.process_time() + sum(item.user + item.system for item in times)


def seconds(value: float) -> str:
    """A duration with three digits after the point."""
    return f"{value:.3f} s"


def share(parts: Sequence[float]) -> str:
    """The last part's share of all, marked if it is above the bound."""
    value = parts[-1] / sum(parts)
    return f"{value:.2%}" + (" (too long)" if value > BOUND else "")


@contextmanager
def private_ray() -> Iterator[None]:
    """Ray of this program alone, on this machine."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    os.environ.pop("RAY_ADDRESS", None)
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=2 * 1024**3,
            _temp_dir=folder,
            _node_ip_address="127.0.0.1",
        )
        try:
            yield
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
