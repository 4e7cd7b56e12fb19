"""The rollout buffer: groups of records in one SQLite file by channel, and the rollouts that fill them.

A record is stored before its writer gets "success", so a killed service loses no acknowledged record. Delivered records
keep their uid without their body, so that a repeated write has no effect.
"""

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from workers.rollout_buffer.plugins import PluginFailure, Plugins, RolloutProcesses
from workers.rollout_buffer.rules import (
    BufferLimits,
    Hooks,
    Record,
    RecordGroup,
    checked_record,
    finite,
    make_rules,
    valid_share,
    whole_number,
)

CHANNEL = re.compile(r"[A-Za-z0-9_.-]{0,80}")
TOTALS = ("written", "read", "finished", "timed_out", "dropped")
_TABLES = """
CREATE TABLE IF NOT EXISTS records(
  number INTEGER PRIMARY KEY, channel TEXT NOT NULL, uid TEXT NOT NULL, body BLOB, delivery INTEGER,
  UNIQUE(channel, uid));
CREATE INDEX IF NOT EXISTS held ON records(channel, number) WHERE body IS NOT NULL;
CREATE TABLE IF NOT EXISTS finished(number INTEGER PRIMARY KEY, channel TEXT NOT NULL, instance TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS state(channel TEXT NOT NULL, name TEXT NOT NULL, value BLOB, PRIMARY KEY(channel, name));
"""


class BufferFull(Exception):
    """The buffer has reached its maximum size; the writer retries later."""


class Store:
    """One file for all channels. Users hold `lock`: they are several threads, one at a time."""

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        path.chmod(0o600)
        self.close = self._base.close
        self.execute, self.executemany = self._base.execute, self._base.executemany
        self.execute("PRAGMA journal_mode=WAL")
        self.execute(
            "PRAGMA synchronous=NORMAL"
        )  # survives the process; a power cut may lose the last changes
        self._base.executescript(_TABLES)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes of the block atomic."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def note(self, channel: str, name: str, value: Any) -> None:
        """Store a value as JSON."""
        with self.lock:
            self.execute(
                "INSERT INTO state VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET value=excluded.value",
                (channel, name, orjson.dumps(value)),
            )

    def noted(self, channel: str, name: str) -> Any:
        """A stored value; None if it does not exist."""
        row = self.execute("SELECT value FROM state WHERE channel=? AND name=?", (channel, name)).fetchone()
        return orjson.loads(row[0]) if row else None


@dataclass
class Group:
    """The records of one instance so far."""

    instance: str
    by_number: dict[int, Record] = field(default_factory=dict)
    """By their numbers on disk."""
    touched: float = 0.0
    """Arrival time of the last record, in seconds of the channel's clock."""

    @property
    def records(self) -> RecordGroup:
        """The records in the order of arrival."""
        return list(self.by_number.values())


@dataclass(frozen=True)
class Delivery:
    """Records for a reader."""

    number: int
    """Increasing number; a reader acknowledges the delivery with it in its next request."""
    records: RecordGroup
    meta_info: dict[str, Any]


class Channel:
    """One queue with many writers and one reader: a group is open until it is complete or has timed out, then ready for
    delivery.

    Thread-safe. `clock` counts seconds; the timeout of groups that were open when the service ended restarts.
    """

    def __init__(
        self, name: str, store: Store, limits: BufferLimits, hooks: Hooks, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._store = store
        self._clock = clock
        self.configure(limits, hooks)

    def configure(self, limits: BufferLimits, hooks: Hooks) -> None:
        """Replace the rules, and group the stored records by them."""
        with self._store.lock:
            self.limits, self._rules = limits, make_rules(limits, hooks)
            with self._changing():
                self._load()

    def _load(self) -> None:
        """Load the state from disk, including unacknowledged deliveries."""
        self._totals = dict.fromkeys(TOTALS, 0) | (self._store.noted(self.name, "totals") or {})
        self._deliveries = int(self._store.noted(self.name, "deliveries") or 0)
        self._open: dict[str, Group] = {}
        self._ready: list[Group] = []
        """Complete groups, in the order of completion."""
        self._held = 0
        """Number of records in open and ready groups."""
        self._due = 0.0
        """Time before which no open group times out."""
        delivered: dict[str, Group] = {}
        now = self._clock()
        rows = self._store.execute(
            "SELECT number, body, delivery FROM records WHERE channel=? AND body IS NOT NULL ORDER BY number",
            (self.name,),
        )
        for number, body, delivery in rows.fetchall():
            record = orjson.loads(body)
            if delivery is None:
                self._add(number, record, now)
            else:
                instance = record["instance_id"]
                delivered.setdefault(instance, Group(instance)).by_number[number] = record
        self._delivered: list[Group] = sorted(delivered.values(), key=lambda group: max(group.by_number))
        """Groups delivered and not acknowledged."""

    def write(self, value: Any) -> Record:
        """Store a record. Raises ValueError if it is invalid, BufferFull if there is no room.

        Open groups may always be completed, or a full buffer would never empty.
        """
        record = checked_record(value)
        with self._swept():
            if self._held >= self.limits.max_records and record["instance_id"] not in self._open:
                raise BufferFull
            with self._changing():
                row = self._store.execute(
                    "INSERT OR IGNORE INTO records(channel, uid, body) VALUES(?, ?, ?)",
                    (self.name, record["uid"], orjson.dumps(record)),
                )
                if row.rowcount and row.lastrowid:
                    self._count(written=1)
                    self._add(row.lastrowid, record, self._clock())
        return record

    def read(self, acknowledged: int | None, most: int | None = None) -> Delivery:
        """Deliver ready groups, all or about `most` records.

        Without `acknowledged` the groups are removed at once. Otherwise the reader gets the last delivery again until it
        acknowledges it: no record is lost between the processes, and none is delivered twice.
        """
        with self._swept(), self._changing():
            if self._delivered and acknowledged not in (None, self._deliveries):
                return self._delivery(self._delivered)
            self._forget(self._delivered)
            self._delivered = groups = self._take(most)
            if not groups:
                return self._delivery([])
            self._deliveries += 1
            self._store.note(self.name, "deliveries", self._deliveries)
            delivery = self._delivery(groups)
            self._finish(groups)
            self._count(read=sum(len(group.by_number) for group in groups), finished=len(groups))
            self._store.executemany(
                "UPDATE records SET delivery=? WHERE number=?",
                [(self._deliveries, number) for group in groups for number in group.by_number],
            )
            if acknowledged is None:
                self._forget(groups)
                self._delivered = []
            return delivery

    def peek(self) -> RecordGroup:
        """The next ready group as it was written, without removing it."""
        with self._swept():
            return self._ready[0].records if self._ready else []

    def stats(self) -> dict[str, int]:
        """Slime's four statistics, and Troupe's additional ones."""
        with self._swept():
            return {
                "current_size": self._held,
                "max_size": self.limits.max_records,
                "total_written": self._totals["written"],
                "total_read": self._totals["read"],
                "open_groups": len(self._open),
                "ready_groups": len(self._ready),
                "groups_finished": self._totals["finished"],
                "groups_timed_out": self._totals["timed_out"],
                "groups_dropped": self._totals["dropped"],
            }

    def done_instances(self) -> list[str]:
        """Instances of groups delivered since the rollout started, and of ready ones, one entry per group: a rollout may skip
        them.
        """
        with self._swept():
            rows = self._store.execute(
                "SELECT instance FROM finished WHERE channel=? ORDER BY number", (self.name,)
            )
            return [*(instance for (instance,) in rows), *(group.instance for group in self._ready)]

    def begun(self) -> dict[str, int]:
        """Number of records of incomplete groups, by instance."""
        with self._swept():
            return {instance: len(group.by_number) for instance, group in self._open.items()}

    def restart(self, *, empty: bool, acknowledged: int | None = None) -> None:
        """Start a new rollout: clear the list of finished groups; with `empty` drop all records.

        If the reader names its last delivery, it either has the unacknowledged groups or gets them again. In the latter
        case they are listed as finished again, so that they are not generated once more.
        """
        with self._store.lock, self._changing():
            self._store.execute("DELETE FROM finished WHERE channel=?", (self.name,))
            if empty:
                self._store.execute("DELETE FROM records WHERE channel=?", (self.name,))
                self._load()
            elif acknowledged == self._deliveries:
                self._forget(self._delivered)
                self._delivered = []
            elif acknowledged is not None:
                self._finish(self._delivered)

    def _add(self, number: int, record: Record, now: float) -> None:
        """Add a record. If it completes its group, the next record of the instance opens another one."""
        instance = record["instance_id"]
        group = self._open.setdefault(instance, Group(instance))
        group.by_number[number] = record
        group.touched = now
        self._held += 1
        valid, finished = self._rules.is_valid_group(instance, group.records)
        if finished:
            self._close(group, valid)

    def _close(self, group: Group, valid: bool) -> None:
        del self._open[group.instance]
        if valid:
            self._ready.append(group)
        else:
            self._held -= len(group.by_number)
            self._forget([group])
            self._count(dropped=1)

    def _take(self, most: int | None) -> list[Group]:
        """Remove and return ready groups, oldest first: all, or at most `most` records in total (but at least one group).

        At most one group per instance, because a delivery identifies groups by their instance.
        """
        taken: dict[str, Group] = {}
        left: list[Group] = []
        count = 0
        for group in self._ready:
            fits = not taken or most is None or count + len(group.by_number) <= most
            if fits and not left and group.instance not in taken:
                taken[group.instance] = group
                count += len(group.by_number)
            else:
                left.append(group)
        self._ready = left
        self._held -= count
        return list(taken.values())

    def _delivery(self, groups: list[Group]) -> Delivery:
        """A delivery of groups. Each group is normalised as a whole; its records are then filtered by their original rewards,
        because a valid record's normalised reward may be below -1.
        """
        rules, records = self._rules, RecordGroup()
        by_instance = {group.instance: group.records for group in groups}
        for group in by_instance.values():
            valid = {record["uid"] for record in group if rules.filter_item(record)}
            copies = [
                dict(record) for record in group
            ]  # a plugin may change them, and they may be delivered again
            normalised = [record for record in rules.normalize_group_data(copies) if record["uid"] in valid]
            records += rules.pad_group_data(normalised, self.limits.group_size)
        figures = rules.get_group_data_meta_info(by_instance) | {"finished_groups": list(by_instance)}
        return Delivery(self._deliveries, records, figures)

    @contextmanager
    def _swept(self) -> Iterator[None]:
        """Hold the lock, and first close the groups whose last record is older than the timeout: those with enough records,
        of which enough are valid, become ready.
        """
        with self._store.lock:
            limits, now = self.limits, self._clock()
            if now > self._due:
                with self._changing():
                    late = [group for group in self._open.values() if now - group.touched > limits.timeout]
                    for group in late:
                        enough = len(group.by_number) >= limits.minimum_ratio * limits.group_size
                        self._close(
                            group, enough and valid_share(group.records, limits) >= limits.minimum_ratio
                        )
                    if late:
                        self._count(timed_out=len(late))
                touched = (group.touched for group in self._open.values())
                self._due = min(touched, default=now) + limits.timeout
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make an atomic change: if it fails, the state is reloaded from disk."""
        try:
            with self._store.transaction():
                yield
        except Exception:
            self._load()
            raise

    def _forget(self, groups: Iterable[Group]) -> None:
        """Remove the records' bodies; their uids remain."""
        numbers = [(number,) for group in groups for number in group.by_number]
        self._store.executemany("UPDATE records SET body=NULL WHERE number=?", numbers)

    def _finish(self, groups: Iterable[Group]) -> None:
        rows = [(self.name, group.instance) for group in groups]
        self._store.executemany("INSERT INTO finished(channel, instance) VALUES(?, ?)", rows)

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            self._totals[name] += count
        self._store.note(self.name, "totals", self._totals)


class RolloutBuffer:
    """All channels. Slime's clients use the one named ""; others are for further runs and evaluations."""

    def __init__(
        self,
        folder: Path,
        data: Path,
        limits: BufferLimits,
        plugins: Plugins,
        address: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: of its records and logs. `data`: contains input files, directly or in subfolders. `address`: the service's,
        with its token, for plugins.
        """
        self.plugins = plugins
        self._address = address
        self._data = data
        self._limits = limits
        self._clock = clock
        self._lock = threading.RLock()
        self._store = Store(folder / "records.sqlite")
        self._rollouts = RolloutProcesses(folder)
        self._channels: dict[str, Channel] = {}

    def resume(self) -> list[str]:
        """Restart the rollouts that were running when the service ended. Returns a message for each that could not be restarted."""
        failures = []
        rows = self._store.execute("SELECT channel FROM records UNION SELECT channel FROM state")
        for (name,) in rows.fetchall():
            request = self._store.noted(name, "rollout")
            channel = self.channel(name)
            if request is not None:
                try:
                    self._configure(channel, request)
                    self._start(channel, request)
                except PluginFailure as error:
                    failures.append(f"the rollout of channel {name!r} cannot be restarted: {error}")
        return failures

    def close(self) -> None:
        """Stop the rollouts; `resume` of the next service restarts them."""
        self._rollouts.end_all()
        self._store.close()

    def channel(self, name: str) -> Channel:
        """A channel, created if it does not exist. Raises ValueError for an invalid name."""
        if not CHANNEL.fullmatch(name):
            raise ValueError(f"{name!r} is not a channel name; use letters, digits, _ . - only")
        with self._lock:
            if name not in self._channels:
                self._channels[name] = Channel(name, self._store, self._limits, {}, self._clock)
            return self._channels[name]

    def names(self) -> list[str]:
        """Names of the channels."""
        return sorted(self._channels)

    def start_rollout(self, name: str, settings: Mapping[str, Any]) -> None:
        """Start a plugin in the background. Raises ValueError for a wrong request, PluginFailure for an unknown type.

        Stored records are kept, and not generated again: ready groups are added to `skip_instance_ids`, and open groups are
        completed. `delivery` is the last delivery that the reader has received; groups of a later one, which are delivered
        again, are skipped too. `fresh` drops all records. An instance named k times is skipped in k epochs.
        """
        request = self._checked(settings)
        with self._lock:
            self._rollouts.end(name)
            channel = self.channel(name)
            channel.restart(empty=bool(request.pop("fresh", False)), acknowledged=request.pop("delivery"))
            self._configure(channel, request)
            self._store.note(name, "rollout", request)
            self._start(channel, request)

    def rollout(self, name: str) -> dict[str, Any]:
        """The state of a channel's rollout; see RolloutProcesses.state."""
        with self._lock:
            state = self._rollouts.state(name)
            if state["state"] == "finished" and self._store.noted(name, "rollout") is not None:
                self._store.note(name, "rollout", None)  # nothing to resume
            return state

    def stop_rollout(self, name: str) -> None:
        """Stop a channel's rollout; its records are kept."""
        with self._lock:
            self._rollouts.end(name)
            self._store.note(name, "rollout", None)

    def _start(self, channel: Channel, request: Mapping[str, Any]) -> None:
        skip = [*request.get("skip_instance_ids", []), *channel.done_instances()]
        url = f"{self._address}/channels/{channel.name}" if channel.name else self._address
        data = {"remote_buffer_url": url, "invalid_reward": self._limits.least_reward, **request}
        data |= {"skip_instance_ids": skip, "begun": channel.begun()}
        self._rollouts.start(channel.name, self.plugins.get(request["task_type"]), data)

    def _configure(self, channel: Channel, request: Mapping[str, Any]) -> None:
        """Set the plugin's rules, and the number of rollouts per prompt as the group size."""
        limits = replace(
            self._limits,
            group_size=request["num_repeat_per_sample"],
            max_records=whole_number(request.get("max_records", self._limits.max_records), "max_records"),
            least_reward=finite(request.get("least_reward", self._limits.least_reward), "least_reward"),
        )
        channel.configure(limits, self.plugins.get(request["task_type"]).hooks)

    def _checked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The request with converted numbers and an absolute path of its file. Raises ValueError, PluginFailure."""
        request = dict(settings)
        self.plugins.get(str(request.get("task_type", "")))
        defaults = {"num_repeat_per_sample": self._limits.group_size, "num_epoch": 1, "num_process": 10}
        for name, default in defaults.items():
            request[name] = whole_number(request.get(name, default), name)
        delivery = request.get("delivery")
        request["delivery"] = None if delivery is None else int(finite(delivery, "delivery"))
        skip = request.get("skip_instance_ids") or []
        if not isinstance(skip, list):
            raise ValueError("skip_instance_ids is a list of instance ids")
        request["skip_instance_ids"] = [str(instance) for instance in skip]
        if request.get("input_file"):
            request["input_file"] = str(self._file(str(request["input_file"])))
        if not request.get("remote_buffer_url"):
            request.pop("remote_buffer_url", None)
        return request

    def _file(self, name: str) -> Path:
        """The path of an input file, which must be below the data folder: users who start runs must not read other files."""
        path = (self._data / name).resolve()
        if not path.is_relative_to(self._data.resolve()):
            raise ValueError(
                f"input_file {name} is not below {self._data}; move it there, or start the service with --data"
            )
        if not path.is_file():
            raise ValueError(f"there is no input_file {path}")
        return path
