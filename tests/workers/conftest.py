"""A private Ray cluster shared by the tests that need one, with its own folder for files."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers import running
from workers.prefork.node import forked_workers

MEGABYTE = 1024 * 1024
TRIES = 3
"""Attempts to start Ray, which allows a node 30 s: too little on a busy machine."""


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """Ray in this process, four (pretended) cores, loopback only. Its workers are forked (workers.prefork)."""
    os.environ |= running.RAY_VARIABLES | {
        "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else one is written to the home folder
        "TROUPE_BUFFER_TOKEN_OF_TESTS": secrets.token_hex(8),  # actors have the variables of this moment
    }
    import ray  # reads those when it is imported

    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    address = os.environ.pop("RAY_ADDRESS", None)
    with forked_workers(wait=True):
        for tried in range(1, TRIES + 1):
            try:
                ray.init(
                    num_cpus=4,
                    include_dashboard=False,
                    object_store_memory=100 * MEGABYTE,
                    log_to_driver=True,  # as a run connects: its log has the lines of its workers
                    _temp_dir=f"{folder}/{tried}",
                    _node_ip_address="127.0.0.1",
                )
                break
            except Exception:
                ray.shutdown()
                if tried == TRIES:
                    raise
        yield
        ray.shutdown()
    if address:
        os.environ["RAY_ADDRESS"] = address
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def little_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model that is made in seconds and has something to learn."""
    return running.little_model(tmp_path_factory.mktemp("models") / "little")
