"""What a rollout buffer has on disk: one SQLite file, every change whole or not at all.

A record stands in it before its writer hears "success", so a killed service loses nothing that was acknowledged. Records
that were handed over keep their uid without their body, so that a writer that asks again writes nothing twice.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from workers.rollout_buffer.groups import Kept

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
        )  # outlives the process; the machine's power may cost the last
        self._base.executescript(_TABLES)

    def close(self) -> None:
        """Nothing is lost without it."""
        self._base.close()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """All changes of the block, or none of them."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._base.execute("ROLLBACK")
            raise
        self._base.execute("COMMIT")

    def add(self, channel: str, record: dict[str, Any]) -> int | None:
        """Keep a record; its number, or None where one of its uid was kept before."""
        row = self._base.execute(
            "INSERT OR IGNORE INTO records(channel, uid, body) VALUES(?, ?, ?)",
            (channel, record["uid"], orjson.dumps(record)),
        )
        return row.lastrowid if row.rowcount else None

    def held(self, channel: str) -> Iterator[tuple[Kept, int | None]]:
        """Records that are not done with, oldest first, with the delivery that they are part of."""
        rows = self._base.execute(
            "SELECT number, body, delivery FROM records WHERE channel=? AND body IS NOT NULL ORDER BY number",
            (channel,),
        )
        for number, body, delivery in rows:
            yield Kept(number, orjson.loads(body)), delivery

    def deliver(self, numbers: Iterable[int], delivery: int) -> None:
        """These records are under way to a reader."""
        self._base.executemany(
            "UPDATE records SET delivery=? WHERE number=?", [(delivery, number) for number in numbers]
        )

    def forget(self, numbers: Iterable[int]) -> None:
        """These records are done with; their uids stay known."""
        self._base.executemany(
            "UPDATE records SET body=NULL WHERE number=?", [(number,) for number in numbers]
        )

    def finish(self, channel: str, instances: Iterable[str]) -> None:
        """Groups of these instances were handed over."""
        self._base.executemany(
            "INSERT INTO finished(channel, instance) VALUES(?, ?)", [(channel, each) for each in instances]
        )

    def finished(self, channel: str) -> list[str]:
        """Instances of the groups handed over since the rollout started, one entry per group."""
        rows = self._base.execute("SELECT instance FROM finished WHERE channel=? ORDER BY number", (channel,))
        return [instance for (instance,) in rows]

    def clear(self, channel: str, *, records: bool) -> None:
        """Forget which groups were handed over, and with `records` everything that is held."""
        self._base.execute("DELETE FROM finished WHERE channel=?", (channel,))
        if records:
            self._base.execute("DELETE FROM records WHERE channel=?", (channel,))

    def note(self, channel: str, name: str, value: Any) -> None:
        """Keep a value (JSON)."""
        self._base.execute(
            "INSERT INTO state VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET value=excluded.value",
            (channel, name, orjson.dumps(value)),
        )

    def noted(self, channel: str, name: str) -> Any:
        """A kept value; None where there is none."""
        row = self._base.execute(
            "SELECT value FROM state WHERE channel=? AND name=?", (channel, name)
        ).fetchone()
        return orjson.loads(row[0]) if row else None

    def channels(self) -> list[str]:
        """Names of the channels that have something on disk."""
        rows = self._base.execute("SELECT channel FROM records UNION SELECT channel FROM state")
        return [name for (name,) in rows]
