"""The version of Ray whose private parts Troupe uses, and that they are there."""

import inspect
from importlib import import_module, metadata
from pathlib import Path

import pytest

from workers.prefork.client import ray_program

VERSION = "2.60.0"
"""Of constraints.txt. With another version, read workers/ray_private.py against Ray's code, run the tests with the marker `ray`, and
change the number here.
"""


def test_the_version_is_the_one_that_was_read() -> None:
    assert metadata.version("ray") == VERSION


@pytest.mark.ray
def test_private_parts_are_there(ray_cluster: None) -> None:
    from workers import ray_private

    heard: list[object] = []
    ray_private.listen("test", heard.append)
    ray_private.stop_listening("test")
    assert ray_private.folder_of_logs().is_dir()
    assert isinstance(ray_private.actors_of_this_job(), list)
    constants = import_module("ray._private.ray_constants")
    before = constants.SETUP_WORKER_FILENAME
    with ray_private.program_for_workers(ray_program()):
        assert Path(constants.SETUP_WORKER_FILENAME) == ray_program()
    assert before == constants.SETUP_WORKER_FILENAME
    assert "get_ray_client_dependency_error()" in inspect.getsource(import_module("ray.scripts.scripts"))
    assert ray_program().is_file()
