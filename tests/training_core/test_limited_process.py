"""Functions in a process of their own: what they return, and each limit as one error. The functions below are those that it calls."""

import os
import signal
from typing import Any

import pytest

from training_core.errors import DataError
from training_core.limited_process import Limits, call_limited

LIMITS = Limits(memory_mib=512, cpu_seconds=1.0, file_mib=2, answer_mib=1)


def called(name: str, **arguments: Any) -> Any:
    return call_limited(f"{__name__}:{name}", arguments, LIMITS, subject="a.jsonl", remedy="split it")


def answer(value: Any) -> Any:
    return {"value": value, "secret": os.environ.get("TROUPE_SECRET_KEY")}


def refuse() -> None:
    raise DataError("a.jsonl, line 2: not JSON", remedy="correct it")


def fail() -> None:
    raise KeyError("rows")


def quote() -> None:
    raise DataError("a" * (2 << 20), remedy="correct it")


def grow() -> int:
    return len(bytearray(1 << 30))


def never_end() -> None:
    while True:
        pass


def shout() -> str:
    return "a" * (3 << 20)


def write(path: str) -> None:
    with open(path, "wb") as file:
        file.write(bytes(5 << 20))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_result_comes_back_and_no_secret_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_SECRET_KEY", "x")
    assert called("answer", value=[1, "é"]) == {"value": [1, "é"], "secret": None}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("refuse", "a.jsonl, line 2: not JSON; correct it"),
        ("quote", "a" * 1000 + "…; correct it"),
        ("fail", "the data cannot be read (KeyError: 'rows')"),
        ("grow", "a.jsonl needs more than 512 MiB of memory to read: split it"),
        ("never_end", "a.jsonl takes more than 1 s to read: split it"),
        ("shout", "a.jsonl expands to more than 2 MiB: split it"),
        ("crash", "a.jsonl cannot be read: its parser has crashed (exit code -11): split it"),
    ],
)
def test_each_failure_is_one_error(name: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        called(name)
    assert str(caught.value) == said


def test_a_file_does_not_grow_beyond_its_limit(tmp_path: Any) -> None:
    with pytest.raises(DataError, match="expands to more than 2 MiB"):
        called("write", path=str(tmp_path / "a"))
    assert (tmp_path / "a").stat().st_size <= (2 << 20) + 1
