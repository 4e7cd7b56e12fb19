"""A rollout buffer's data on disk: one SQLite file with atomic changes.

A record is stored before its writer gets "success", so a killed service loses no acknowledged record. Delivered records
keep their uid without their body, so that a repeated write has no effect.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from workers.rollout_buffer.groups import StoredRecord

_TABLES = """
CREATE TABLE IF NOT EXISTS records(
  number INTEGER PRIMARY KEY, channel TEXT NOT NULL, uid TEXT NOT NULL, body BLOB, delivery INTEGER,
  UNIQUE(channel, uid));
CREATE INDEX IF NOT EXISTS held ON records(channel, number) WHERE body IS NOT NULL;
CREATE TABLE IF NOT EXISTS finished(number INTEGER PRIMARY KEY, channel TEXT NOT NULL, instance TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS state(channel TEXT NOT NULL, name TEXT NOT NULL, value BLOB, PRIMARY KEY(channel, name));
"""


class Store:
    """One file for all channels. Callers hold its lock: it is used from several threads, one at a time."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        path.chmod(0o600)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute(
            "PRAGMA synchronous=NORMAL"
        )  # survives the process; a power failure may lose the last changes
        self._base.executescript(_TABLES)

    def close(self) -> None:
        """Close the file. Without this call nothing is lost."""
        self._base.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes of the block atomic."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def add(self, channel: str, record: dict[str, Any]) -> int | None:
        """Store a record. Returns its number, or None if a record with its uid exists."""
        row = self._base.execute(
            "INSERT OR IGNORE INTO records(channel, uid, body) VALUES(?, ?, ?)",
            (channel, record["uid"], orjson.dumps(record)),
        )
        return row.lastrowid if row.rowcount else None

    def held(self, channel: str) -> Iterator[tuple[StoredRecord, int | None]]:
        """Records that are not removed, oldest first, with the number of their delivery."""
        rows = self._base.execute(
            "SELECT number, body, delivery FROM records WHERE channel=? AND body IS NOT NULL ORDER BY number",
            (channel,),
        )
        for number, body, delivery in rows:
            yield StoredRecord(number, orjson.loads(body)), delivery

    def deliver(self, numbers: Iterable[int], delivery: int) -> None:
        """Mark records as part of a delivery."""
        self._base.executemany(
            "UPDATE records SET delivery=? WHERE number=?", [(delivery, number) for number in numbers]
        )

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove the records' bodies; their uids remain."""
        self._base.executemany(
            "UPDATE records SET body=NULL WHERE number=?", [(number,) for number in numbers]
        )

    def finish(self, channel: str, instances: Iterable[str]) -> None:
        """Add instances of delivered groups."""
        self._base.executemany(
            "INSERT INTO finished(channel, instance) VALUES(?, ?)",
            [(channel, instance) for instance in instances],
        )

    def finished(self, channel: str) -> list[str]:
        """Instances of the groups delivered since the rollout started, one entry per group."""
        rows = self._base.execute("SELECT instance FROM finished WHERE channel=? ORDER BY number", (channel,))
        return [instance for (instance,) in rows]

    def clear(self, channel: str, *, records: bool) -> None:
        """Clear the list of delivered groups, and with `records` all records."""
        self._base.execute("DELETE FROM finished WHERE channel=?", (channel,))
        if records:
            self._base.execute("DELETE FROM records WHERE channel=?", (channel,))

    def note(self, channel: str, name: str, value: Any) -> None:
        """Store a value as JSON."""
        self._base.execute(
            "INSERT INTO state VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET value=excluded.value",
            (channel, name, orjson.dumps(value)),
        )

    def noted(self, channel: str, name: str) -> Any:
        """A stored value; None if it does not exist."""
        row = self._base.execute(
            "SELECT value FROM state WHERE channel=? AND name=?", (channel, name)
        ).fetchone()
        return orjson.loads(row[0]) if row else None

    def channels(self) -> list[str]:
        """Names of the channels with data on disk."""
        rows = self._base.execute("SELECT channel FROM records UNION SELECT channel FROM state")
        return [name for (name,) in rows]
