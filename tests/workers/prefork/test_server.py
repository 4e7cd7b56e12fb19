"""Which workers the prefork server takes; a program that no prefork server serves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workers.prefork.client import ray_program, run_forked
from workers.prefork.server import OWN, Imported, changed_at, expanded, own_files, parsed, refusal

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "/somewhere/ray/_private/workers/default_worker.py"


def arguments(program: str = PROGRAM, **context: Any) -> list[str]:
    return [
        program,
        "--node-id=1",
        f"--serialized-runtime-env-context={json.dumps(context)}",
        "--language=PYTHON",
    ]


def refused(words: list[str], **variables: str) -> str:
    imported = Imported({"HF_HOME": "/models"}, own_files(), {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"})
    return refusal({"arguments": words, "environment": variables}, imported)


@pytest.mark.parametrize(
    ("words", "variables", "reason"),
    [
        (arguments(), {}, ""),
        (arguments(py_executable=sys.executable, command_prefix=[]), {}, ""),
        (arguments(env_vars={"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}), {}, ""),
        (arguments(env_vars={"PYTHONPATH": str(ROOT)}), {}, ""),
        (arguments(env_vars={"HF_HOME": "/other"}), {}, "HF_HOME has another value"),
        (arguments(), {"TORCH_LOGS": "all"}, "TORCH_LOGS has another value"),
        (["-m", "workers.job", "/job"], {"PYTHONBREAKPOINT": "ray.util.rpdb.set_trace"}, ""),
        (["-m", "workers.job", "/job"], {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}, ""),
        (["-m", "workers.job", "/job"], {"PYTORCH_NVML_BASED_CUDA_CHECK": "0"}, "has another value"),
        (arguments(py_executable="/usr/bin/python3"), {}, "another interpreter"),
        (arguments(command_prefix=["cd", "/tmp", "&&"]), {}, "a command of its runtime environment"),
        (arguments(override_worker_entrypoint="/x/default_worker.py"), {}, "another program"),
        (["-m", "ray.util.client.server"], {}, "another program"),
        (arguments("/x/y.py"), {}, "another program"),
    ],
)  # fmt: skip
def test_an_unchanged_worker_is_forked(words: list[str], variables: dict[str, str], reason: str) -> None:
    said = refused(words, **{"HF_HOME": "/models"} | variables)
    assert reason in said and bool(reason) == bool(said)


def test_a_variable_that_is_missing_is_another_value() -> None:
    assert refused(arguments()) == "HF_HOME has another value"


def test_a_run_with_custom_packages_is_not_forked(tmp_path: Path) -> None:
    (tmp_path / OWN[0]).mkdir()
    path = os.pathsep.join(["/nowhere", str(tmp_path), str(ROOT)])
    assert (
        refused(arguments(env_vars={"PYTHONPATH": path}), HF_HOME="/models")
        == f"its packages are those of {tmp_path}"
    )
    first = os.pathsep.join([str(ROOT), str(tmp_path)])
    assert refused(arguments(env_vars={"PYTHONPATH": first}), HF_HOME="/models") == ""


def test_workers_see_edited_code(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("x = 1")
    imported = Imported({}, {module: changed_at(module)})
    request = {"arguments": arguments(), "environment": {}}
    assert refusal(request, imported) == ""
    os.utime(module, ns=(1, 1))
    assert refusal(request, imported).startswith(f"{module} has changed")
    module.unlink()
    assert refusal(request, imported).startswith(f"{module} has changed")
    assert Path(refusal.__code__.co_filename) in own_files()


@pytest.mark.parametrize("text", ["${B}:$B", "${UNKNOWN}:$UNKNOWN:${unknown}", "a$", "$5 {B} $$B", "${A}"])
def test_variables_are_expanded_as_ray_does(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private.utils import update_envs

    context, program = parsed(arguments(env_vars={"A": "first", "LAST": text}))
    assert program == PROGRAM
    ours = expanded({"B": "b"}, context)
    monkeypatch.setattr(os, "environ", {"B": "b"})
    update_envs(context["env_vars"])
    assert ours == os.environ


def test_the_prefork_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "fork"
    folder.mkdir()
    command = [sys.executable, "-m", "workers.prefork.server", str(folder / "socket"), "600"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout and server.stdout.readline() == b"listening\n"
        server.stdin.close()
        server.stdout.close()
        assert server.wait(60) == 0
    assert not folder.exists()


def test_without_a_prefork_server_ray_starts_the_worker(tmp_path: Path) -> None:
    assert run_forked(str(tmp_path / "nobody"), arguments()) is None
    assert run_forked("", arguments()) is None
    assert ray_program().is_file()
