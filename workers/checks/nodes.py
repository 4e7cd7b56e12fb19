"""Whether all nodes of a cluster see the data folder, as the start of a run checks for its own nodes (workers.storage.shared_folder)."""

import logging
import os
from pathlib import Path

from workers.checks.results import Unchecked
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
