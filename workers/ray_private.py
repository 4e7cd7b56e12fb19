"""The private parts of Ray that Troupe uses. They may change with any version of Ray: tests/workers/test_ray_private.py names the
version that they are of.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray


def listen(name: str, heard: Callable[[dict[str, Any]], None]) -> None:
    """Pass what workers write on all nodes to `heard`, in batches {"ip", "pid", "is_err", "lines", ...} from a thread of Ray."""
    from ray._private.ray_logging import global_worker_stdstream_dispatcher

    global_worker_stdstream_dispatcher.add_handler(name, heard)


def stop_listening(name: str) -> None:
    """End `listen`. Does nothing if it has ended."""
    from ray._private.ray_logging import global_worker_stdstream_dispatcher

    global_worker_stdstream_dispatcher.remove_handler(name)


def actors_of_this_job() -> list[dict[str, Any]]:
    """Ray's table of this job's actors, with those that have ended: {"Name", "Pid", "Address": {"IPAddress", ...}, ...}."""
    from ray._private.state import actors

    job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    return list(actors(job_id=job).values())


def folder_of_logs() -> Path:
    """The folder of this node's logs."""
    from ray._private import worker

    node: Any = worker._global_node
    return Path(node.get_logs_dir_path())


@contextmanager
def program_for_workers(program: Path) -> Iterator[None]:
    """A node that this process starts inside the context runs this program for each worker.

    Ray reads the program's name from a constant of the process that starts the node.
    """
    from ray._private import ray_constants

    before = ray_constants.SETUP_WORKER_FILENAME
    ray_constants.SETUP_WORKER_FILENAME = str(program)
    try:
        yield
    finally:
        ray_constants.SETUP_WORKER_FILENAME = before


def start_node() -> None:
    """Ray's command line, `ray start ...`; a head starts no server for Ray's client.

    There is no option for it: the server is left out where the client's packages are missing.
    """
    from ray.scripts import scripts

    scripts.get_ray_client_dependency_error = lambda: ImportError("not used")  # type: ignore[attr-defined]
    scripts.main()  # type: ignore[no-untyped-call]
