"""Checks before a launch: can the run work here? Each runs the code that the driver would run, and a failed one does not hide the others.

The checks of all kinds of agents are here: devices, memory, loggers, and whether all nodes see the data folder.
"""

import json
import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from training_core.config.kinds import AnyConfig
from training_core.devices import cuda_is_visible
from training_core.errors import Advice, ConfigError, TroupeError
from training_core.importing import resolve
from training_core.llm.base_models.folder_creation import Progress, silent
from training_core.loggers.registry import LOGGERS, enabled_loggers
from workers.jobs.context import JobContext
from workers.kinds import WORKER_KINDS
from workers.sizing.changes import change_text, smallest_change
from workers.sizing.estimates import (
    NodeMemory,
    estimate,
    largest_card,
    memory_shortages,
    memory_unknown,
    size_text,
)
from workers.sizing.placement import amount, demand, refuse_evaluator, refuse_gpus, requested_gpus
from workers.storage.folders import check_mark, marked
from workers.telemetry.faults import fault_of, has_traceback, sentence

State = Literal["passed", "warning", "failed", "unknown"]
Step = tuple[str, Callable[[], str]]
"""Name of a check, and the function that makes it: it returns what was found and raises for a failure, Doubtful or Unchecked."""
PATIENCE = 60.0
"""Seconds for all nodes to answer: each starts a process."""


class Unchecked(TroupeError):
    """A check cannot be made here, or not before the launch; the message states why."""


class Doubtful(TroupeError):
    """A launch would not fail, but the run may not work as expected; the message states why, and the remedy."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    """What is checked, in a few words."""
    state: State
    text: str
    """One sentence: what was found, the cause of a warning or a failure, or why it is not known."""
    remedy: str = ""
    """One sentence; only of a warning or a failed check."""


def make_checks(steps: Iterable[Step], progress: Progress) -> list[Check]:
    """Make all checks in order. Tracebacks of failures go to standard error."""
    listed = list(steps)
    results = []
    for index, (name, make) in enumerate(listed):
        progress(index / len(listed), name)
        results.append(_result(name, make))
    return results


def _result(name: str, make: Callable[[], str]) -> Check:
    try:
        return Check(name, "passed", sentence(make()))
    except Unchecked as unknown:
        return Check(name, "unknown", sentence(str(unknown)))
    except Doubtful as doubt:
        fault = fault_of(doubt)
        return Check(name, "warning", fault.cause, fault.remedy)
    except (Exception, SystemExit) as error:  # code of the user, which may also end the process
        if has_traceback(error):
            traceback.print_exc()
        fault = fault_of(error)
        return Check(name, "failed", fault.cause, fault.remedy)


def printed(checks: Sequence[Check], *, as_json: bool = False) -> str:
    """The checks as lines of text, a remedy below its failure; or as JSON."""
    if as_json:
        return (
            json.dumps({"checks": [asdict(check) for check in checks], "failed": failed(checks)}, indent=2)
            + "\n"
        )
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:8}{check.name:{width}}  {check.text}")
        lines += [f"{'':8}{'':{width}}  {check.remedy}"] if check.remedy else []
    return "\n".join(lines) + "\n"


def failed(checks: Iterable[Check]) -> bool:
    """Whether a launch would fail."""
    return any(check.state == "failed" for check in checks)


def nodes_see(folder: Path) -> str:
    """Read a file of this process on every node. Raises FolderNotShared, Unchecked."""
    if not os.environ.get("RAY_ADDRESS"):
        raise Unchecked("this process does not belong to the cluster; the start of the run checks it")
    import ray  # slow: needed only where there are several nodes
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if not ray.is_initialized():
        ray.init(logging_level=logging.WARNING)
    nodes = [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    read = ray.remote(num_cpus=0, max_retries=0)(check_mark)
    with marked(folder) as mark:
        try:
            calls = [
                read.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                    None, mark
                )
                for node in nodes
            ]
            ray.get(calls, timeout=PATIENCE)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise Unchecked("not every node answers; the start of the run checks it") from error
    return f"all nodes of the cluster ({len(nodes)}) see {folder}"


@dataclass(frozen=True)
class ClusterDevices:
    """The devices of the cluster, as its launcher reports them."""

    gpus: float
    nodes: tuple[NodeMemory, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "ClusterDevices":
        """From the request of a short job."""
        nodes = (NodeMemory(int(node["main"]), int(node["gpu"])) for node in document["nodes"])
        return cls(float(document["gpus"]), tuple(nodes))


@dataclass(frozen=True)
class Surroundings:
    """Where the run would run."""

    home: Path
    """TROUPE_HOME, with base models."""
    local: bool = False
    """Whether it is one process on this machine, as with `troupe run` or a launcher of local processes."""
    cluster: ClusterDevices | None = None
    """None if it is this process, or if the cluster does not answer."""


def shared_steps(config: AnyConfig, around: Surroundings) -> Iterator[Step]:
    """The checks of every run."""
    yield "GPUs", partial(_gpus, config, around)
    if around.cluster and len(around.cluster.nodes) > 1:
        yield "data folder of all nodes", partial(nodes_see, around.home)
    if config.models:
        yield "memory", partial(_memory, config, around)
    if around.local and config.evaluates_beside:
        yield "evaluator", partial(refuse_evaluator, config)
    if any(getattr(config.reporting, name) for name in LOGGERS):
        yield "loggers", partial(_loggers, config)


def _loggers(config: AnyConfig) -> str:
    return f"the packages of {', '.join(enabled_loggers(config.reporting))} are installed"


def _gpus(config: AnyConfig, around: Surroundings) -> str:
    """Compare the requested GPUs with those of this machine or of the cluster."""
    wanted = demand(config).gpus
    if not requested_gpus(config):
        return "no GPU is requested"
    if around.local:
        if not cuda_is_visible():
            refuse_gpus(config, "this machine")
        return "a CUDA device is visible"
    if around.cluster is None:
        raise Unchecked("the cluster does not answer, so its GPUs are not known")
    if not around.cluster.gpus:
        refuse_gpus(config, "the cluster")
    if wanted > around.cluster.gpus:
        field = next(iter(requested_gpus(config)))
        text = f"the run needs {amount(wanted, 'GPUs')} in total and the cluster has {around.cluster.gpus:g}"
        raise ConfigError({field: text}, remedy="lower it, or add nodes")
    return f"{wanted:g} of {around.cluster.gpus:g} GPUs are requested"


def _machines(config: AnyConfig, around: Surroundings) -> tuple[tuple[NodeMemory, ...], float]:
    """Memory of the machines, and their number of GPUs."""
    if around.local:
        return (_this_machine(demand(config).gpus),), 1.0
    return (around.cluster.nodes, around.cluster.gpus) if around.cluster else ((), 0.0)


def _this_machine(gpus: float) -> NodeMemory:
    """Its memory for a run in this process, whose policies share the first GPU, however many they request."""
    gpu = 0
    if cuda_is_visible():
        import torch

        gpu = int(torch.cuda.get_device_properties(0).total_memory / max(gpus, 1.0))
    return NodeMemory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), gpu)


def _memory(config: AnyConfig, around: Surroundings) -> str:
    """Compare the estimated memory of each worker with that of the machines."""
    nodes, cards = _machines(config, around)
    estimated = estimate(config, around.home, card=largest_card(nodes))
    if shortages := memory_shortages(estimated, nodes):
        change = smallest_change(config, around.home, nodes, cards)
        remedy = f"the memory suffices with {change_text(change)}" if change else shortages[0].remedy
        raise ConfigError({"": Advice(shortages[0].cause, remedy)})
    if unknown := memory_unknown(estimated):
        raise Unchecked(f"memory is not known of {'; '.join(unknown)}")
    peak = max(worker.peak for policy in estimated.policies for worker in policy.workers)
    if not nodes:
        raise Unchecked(
            f"the largest worker needs {size_text(peak)}; the memory of the machines is not known"
        )
    return f"the largest worker needs {size_text(peak)} of memory"


def checks_of(config: AnyConfig, around: Surroundings, progress: Progress = silent) -> list[Check]:
    """What the driver would check of a config, made now."""
    return make_checks(resolve(WORKER_KINDS[config.agents].checks)(config, around), progress)


def check(context: JobContext[AnyConfig]) -> dict[str, Any]:
    """Result: `checks`, a list of {"name", "state", "text", "remedy"}, and `failed`, whether a launch would fail."""
    devices = context.parameters.get("cluster")
    cluster = ClusterDevices.read(devices) if devices else None
    checks = checks_of(context.config, Surroundings(context.home, context.local, cluster), context.progress)
    return {"checks": [asdict(item) for item in checks], "failed": failed(checks)}
