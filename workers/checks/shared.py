"""Checks that all kinds of agents have: devices, memory, loggers, and whether all nodes see the data folder."""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from training_core.config.kinds import AnyConfig
from training_core.devices import cuda_is_visible
from training_core.errors import ConfigError
from training_core.loggers.registry import LOGGERS, enabled_loggers
from workers.checks.results import Step, Unchecked
from workers.sizing.demand import demand
from workers.sizing.estimates import estimate
from workers.sizing.gpus import refuse_gpus, requested_gpus
from workers.sizing.memory_fit import NodeMemory, memory_shortages, memory_unknown
from workers.sizing.size_text import size_text
from workers.storage.shared_folder import check_mark, marked

PATIENCE = 60.0
"""Seconds for all nodes to answer: each starts a process."""


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
    """Whether it is this process, as with `troupe run`."""
    cluster: ClusterDevices | None = None
    """None if it is this process, or if the cluster does not answer."""


def shared_steps(config: AnyConfig, around: Surroundings) -> Iterator[Step]:
    """The checks of every run."""
    yield "GPUs", partial(_gpus, config, around)
    if around.cluster and len(around.cluster.nodes) > 1:
        yield "data folder of all nodes", partial(nodes_see, around.home)
    if config.models:
        yield "memory", partial(_memory, config, around)
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
        text = f"the run needs {wanted:g} GPUs in total and the cluster has {around.cluster.gpus:g}; lower it, or add nodes"
        raise ConfigError({field: text})
    return f"{wanted:g} of {around.cluster.gpus:g} GPUs are requested"


def _this_machine() -> NodeMemory:
    gpu = 0
    if cuda_is_visible():
        import torch

        gpu = torch.cuda.get_device_properties(0).total_memory
    return NodeMemory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), gpu)


def _memory(config: AnyConfig, around: Surroundings) -> str:
    """Compare the estimated memory of each worker with that of the machines."""
    estimated = estimate(config, around.home)
    nodes = (_this_machine(),) if around.local else around.cluster.nodes if around.cluster else ()
    if shortages := memory_shortages(estimated, nodes):
        raise ConfigError({"": shortages[0]})
    if unknown := memory_unknown(estimated):
        raise Unchecked(f"memory is not known of {'; '.join(unknown)}")
    peak = max(worker.peak for policy in estimated.policies for worker in policy.workers)
    if not nodes:
        raise Unchecked(
            f"the largest worker needs {size_text(peak)}; the memory of the machines is not known"
        )
    return f"the largest worker needs {size_text(peak)} of memory"
