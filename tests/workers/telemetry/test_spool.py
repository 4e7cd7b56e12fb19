"""Reading a spool: whole lines only, and any line can be found again."""

import math
import os
from pathlib import Path

import numpy as np
import orjson
import pytest

from workers.reporting.encoding import encode
from workers.telemetry.spool import SpoolReader, SpoolWriter


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool" / "p.jsonl"
    writer = SpoolWriter(path)
    for number in range(1, 101):
        assert writer.append(b"n", b" " * (number % 7) + b"\n") == number
    writer.close()
    return path


def test_batches_hold_whole_lines(spool: Path) -> None:
    reader = SpoolReader(spool)
    seen: list[bytes] = []
    while batch := reader.take(50, 1000):
        assert batch.data.endswith(b"\n")
        assert batch.first == len(seen) + 1
        seen += batch.data.splitlines()
        assert batch.last == len(seen)
        reader.seek(batch.last + 1)
    assert [line.strip() for line in seen] == [b"n%d" % number for number in range(1, 101)]


def test_take_respects_the_number_of_lines(spool: Path) -> None:
    batch = SpoolReader(spool).take(1 << 20, 3)
    assert batch is not None
    assert (batch.first, batch.count, batch.data.split()) == (1, 3, [b"n1", b"n2", b"n3"])


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("seq", [1, 2, 50, 100])
def test_seek_finds_every_line(spool: Path, seq: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.telemetry.spool.SCAN", block)
    reader = SpoolReader(spool)
    for start in (101, 30, 1):
        reader.seek(start)
        reader.seek(seq)
        batch = reader.take(1 << 20, 1)
        assert batch is not None
        assert (batch.first, batch.data.strip()) == (seq, b"n%d" % seq)


def test_an_incomplete_line_is_not_read(spool: Path) -> None:
    with spool.open("ab") as file:
        file.write(b"n101 torn")
    reader = SpoolReader(spool)
    reader.seek(500)
    assert reader.next == 101
    assert reader.take(4, 10) is None
    with spool.open("ab") as file:
        file.write(b" mended\n")
    batch = reader.take(4, 10)
    assert batch is not None
    assert batch.data == b"n101 torn mended\n"


def test_a_line_longer_than_a_batch_is_returned_complete(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "p.jsonl")
    writer.append(b"", b"x" * 5000 + b"\n")
    writer.append(b"", b"\n")
    reader = SpoolReader(tmp_path / "p.jsonl")
    batch = reader.take(100, 10)
    assert batch is not None
    assert batch.data.splitlines()[0] == b"1" + b"x" * 5000


def test_a_partly_written_line_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is nearly full."""
    writer, write = SpoolWriter(tmp_path / "p1.jsonl"), os.write
    assert writer.append(b"first ", b"\n") == 1
    with monkeypatch.context() as nearly_full:
        nearly_full.setattr(os, "write", lambda file, line: write(file, line[:3]))
        with pytest.raises(OSError, match="only 3 of 9 bytes could be written to"):
            writer.append(b"second ", b"\n")
    assert writer.append(b"next ", b"\n") == 2
    writer.close()
    writer.close()
    assert writer.path.read_bytes() == b"first 1\nnext 2\n"
    with pytest.raises(OSError, match="Bad file descriptor"):
        writer.append(b"late ", b"\n")


def test_a_spool_has_one_writer_and_no_readers_beyond_the_group(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        writer = SpoolWriter(tmp_path / "p1.jsonl")
    finally:
        os.umask(before)
    assert writer.path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(FileExistsError):
        SpoolWriter(writer.path)
    writer.close()


def test_numbers_that_json_lacks_are_words() -> None:
    event = {
        "a": math.nan,
        "b": [math.inf, 1.5],
        "c": (-math.inf,),
        "d": np.float32("nan"),
        "e": np.array([1.0, np.inf]),
    }
    assert orjson.loads(encode(event)) == {
        "a": "NaN", "b": ["Infinity", 1.5], "c": ["-Infinity"], "d": "NaN", "e": [1.0, "Infinity"],
    }  # fmt: skip


def test_none_stays_null_and_lone_surrogates_become_text() -> None:
    assert orjson.loads(encode({"a": None, "b": "null", "c": "x\ud800"})) == {
        "a": None,
        "b": "null",
        "c": "x?",
    }


def test_values_that_are_not_json_are_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be part of an event"):
        encode({"a": object()})
