"""What is wrong and what to do, as two sentences: from exceptions of Troupe, of libraries and of the operating system."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from training_core.checkpoints import write_errors_explained
from training_core.errors import Advice, CheckpointError, ConfigError, EngineFailure, ModelError
from workers.telemetry.faults import (
    LONGEST,
    LONGEST_REASON,
    Fault,
    fault_in,
    fault_of,
    has_traceback,
    plain,
    printed_failure,
    reason,
)

WRAPPED = (
    "\x1b[36mray::RolloutCoordinator.collect()\x1b[39m (pid=5872, actor_id=02, repr=<workers.actors.coordinator.X object>)\n"
    '  File "/lib/concurrent/futures/_base.py", line 449, in result\n    return self.__get_result()\n'
    "           ^^^^^^^^^^^^^^^^^^^\n"
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: PolicyWorker\n"
    "\nThe above exception was the direct cause of the following exception:\n\n"
    "\x1b[36mray::RolloutCoordinator.collect()\x1b[39m (pid=5872)\n    ) from error\n"
    "workers.protocol.WorkerLost: policy-planner died; a new attempt starts from the last checkpoint\n"
)


def test_a_ray_tracebacks_reason_is_its_last_message() -> None:
    told = "workers.protocol.WorkerLost: policy-planner died; a new attempt starts from the last checkpoint"
    assert reason(WRAPPED) == told


def test_a_python_tracebacks_reason_is_its_last_message() -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: two\nlines'
    assert reason(text) == "ValueError: two\nlines"


@pytest.mark.parametrize(
    "text", ["", "a bug", "two\nlines\tand a tab", "Gruß: 3 × 4", "error: no such model"]
)
def test_plain_text_is_unchanged(text: str) -> None:
    assert reason(text) == text


def test_terminal_codes_and_invisible_characters_are_removed() -> None:
    assert (
        plain("\x1b[31mred\x1b[0m \x1b]0;title\x07and \x1b]8;;http://x\x1b\\link\r\n\x00\x07end")
        == "red and link\nend"
    )


def test_a_long_reason_is_cut_at_the_limit() -> None:
    told = reason("x" * 100_000)
    assert len(told) == LONGEST_REASON and told.endswith("…")


@pytest.mark.parametrize(
    ("message", "cause", "remedy"),
    [
        (Advice("no weights", "set the folder"), "No weights.", "Set the folder."),
        (Advice("vLLM is not installed:", "pip install vllm"), "vLLM is not installed.", "Pip install vllm."),
        ("disk quota: use at 100 percent", "Disk quota: use at 100 percent.", ""),
        ("line one\nline two", "Line one line two.", ""),
        ("", "", ""),
    ],
)
def test_a_message_states_its_remedy_or_none(message: str, cause: str, remedy: str) -> None:
    assert fault_in(message) == Fault(cause, remedy)
    assert fault_in(cause) == Fault(cause), "a stored sentence does not change"


@pytest.mark.parametrize(
    "fault", [Fault("The disk is full: use at 100 percent.", "Free space."), Fault("A bug.")]
)
def test_a_printed_failure_is_read_again(fault: Fault) -> None:
    assert printed_failure(f"lost: an earlier one\nfailed: {fault.printed}\nout\n") == (fault, False)
    assert printed_failure("out\n") == (None, True)


def raised(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        act()
    return caught.value


def wrapped(inner: Exception, outer: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


def test_the_innermost_error_of_troupe_counts() -> None:
    inner = ModelError("the file is damaged", remedy="download it again")
    fault = fault_of(wrapped(wrapped(OSError("bad"), inner), EngineFailure("generation failed")))
    assert fault == Fault("The file is damaged.", "Download it again.")


def test_a_full_disk_states_the_file_and_the_remedy() -> None:
    def write() -> None:
        with write_errors_explained("the checkpoint /data/7"):
            full = os.open("/dev/full", os.O_WRONLY)
            try:
                os.write(full, b"x")
            finally:
                os.close(full)

    error = raised(write)
    assert isinstance(error, CheckpointError)
    fault = fault_of(error)
    assert fault.cause.startswith("Cannot write the checkpoint /data/7: [Errno 28] No space left on device")
    assert fault.remedy.startswith("Free space on this disk")
    bare = fault_of(OSError(errno.ENOSPC, "No space left on device", "/data/spool"))
    assert bare.cause == "The disk is full: [Errno 28] No space left on device: '/data/spool'."


def test_a_taken_port_states_the_remedy() -> None:
    with socket.socket() as holder, socket.socket() as other:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        fault = fault_of(raised(lambda: other.bind(holder.getsockname())))
    assert fault.cause.startswith("The port is in use: ")
    assert fault.remedy == "End the other program, or choose another port."


def test_short_memory_states_what_to_lower() -> None:
    fault = fault_of(raised(lambda: bytearray(1 << 62)))
    assert fault.cause.startswith("The machine is out of memory: ")
    assert "resources.environment_workers" in fault.remedy
    fault = fault_of(
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB")
    )
    assert fault.cause == "The GPU is out of memory: CUDA out of memory."
    assert "policies.*.learner.micro_batch_tokens" in fault.remedy


def test_missing_packages_and_devices_are_recognised() -> None:
    missing = fault_of(raised(lambda: __import__("no_such_package_of_anyone")))
    assert missing.cause.endswith("No module named 'no_such_package_of_anyone'.")
    assert missing.remedy.startswith("Install it there")
    device = fault_of(RuntimeError("Found no NVIDIA driver on your system. Please check that you have one"))
    assert device.cause == "No CUDA device is visible to the worker: Found no NVIDIA driver on your system."
    assert "rollout_gpus" in device.remedy


def test_a_model_with_a_remedy_needs_no_traceback() -> None:
    assert not has_traceback(ModelError("the hub cannot be reached", remedy="download the model"))
    assert has_traceback(ModelError("its weights are of another shape"))


def test_an_unknown_error_refers_to_the_traceback() -> None:
    fault = fault_of(raised(lambda: {}["gone"]))
    assert fault.cause == "KeyError: 'gone'."
    assert "traceback in the run's log" in fault.remedy


def test_several_wrong_fields_are_counted() -> None:
    fault = fault_of(ConfigError({"run.seed": "is odd", "run.name": "is long"}))
    assert fault.cause == "2 fields are wrong, run.seed and 1 other: is odd."
    assert fault.remedy == "Correct this field, then launch again."


def test_sentences_are_bounded_and_plain(tmp_path: Path) -> None:
    fault = fault_of(ModelError("\x1b[31m" + "x " * 3000, remedy="set it " + "y " * 3000))
    assert len(fault.cause) <= LONGEST and len(fault.remedy) <= LONGEST
    assert "\x1b" not in str(fault) and "\n" not in str(fault)
