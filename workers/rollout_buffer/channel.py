"""One queue of the service, on disk, with many writers and one reader."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workers.rollout_buffer.groups import Groups, OpenGroup, StoredRecord
from workers.rollout_buffer.rules import BufferLimits, Record, RecordGroup, checked_record, make_rules
from workers.rollout_buffer.store import Store

Hooks = Mapping[str, Callable[..., Any]]
TOTALS = ("written", "read", "finished", "timed_out", "dropped")


class BufferFull(Exception):
    """The buffer has reached its maximum size; the writer retries later."""


@dataclass(frozen=True)
class Delivery:
    """Records for a reader."""

    number: int
    """Increasing number; a reader acknowledges the delivery with it in its next request."""
    records: RecordGroup
    meta_info: dict[str, Any]


class Channel:
    """Thread-safe. `clock` counts seconds; the timeout of groups that were open when the service ended restarts."""

    def __init__(
        self, name: str, store: Store, limits: BufferLimits, hooks: Hooks, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._store = store
        self._clock = clock
        self._lock = store.lock
        self._delivered: list[OpenGroup] = []
        """Groups delivered and not acknowledged."""
        self.configure(limits, hooks)

    @property
    def limits(self) -> BufferLimits:
        """The current limits."""
        return self._limits

    def configure(self, limits: BufferLimits, hooks: Hooks) -> None:
        """Replace the rules, and group the stored records by them."""
        with self._lock:
            self._limits, self._rules = limits, make_rules(limits, hooks)
            with self._changing():
                self._load()

    def write(self, value: Any) -> Record:
        """Store a record. Raises ValueError if it is invalid, BufferFull if there is no room."""
        record = checked_record(value)
        with self._lock:
            self._sweep()
            if not self._groups.takes(record["instance_id"]):
                raise BufferFull
            with self._changing():
                number = self._store.add(self.name, record)
                if number is not None:
                    self._count(written=1)
                    self._groups.add(StoredRecord(number, record), self._clock())
        return record

    def read(self, acknowledged: int | None, most: int | None = None) -> Delivery:
        """Deliver ready groups, all or about `most` records.

        Without `acknowledged` the groups are removed at once. Otherwise the reader gets the last delivery again until it
        acknowledges it: no record is lost between the processes, and none is delivered twice.
        """
        with self._lock:
            self._sweep()
            with self._changing():
                if self._delivered and acknowledged is not None and acknowledged != self._deliveries:
                    return self._made(self._delivered)
                self._store.forget(_numbers(self._delivered))
                self._delivered = self._groups.take(most)
                if not self._delivered:
                    return self._made([])
                self._deliveries += 1
                self._store.note(self.name, "deliveries", self._deliveries)
                made = self._made(self._delivered)
                self._store.finish(self.name, made.meta_info["finished_groups"])
                self._count(
                    read=sum(len(group.stored) for group in self._delivered), finished=len(self._delivered)
                )
                self._store.deliver(_numbers(self._delivered), self._deliveries)
                if acknowledged is None:
                    self._store.forget(_numbers(self._delivered))
                    self._delivered = []
                return made

    def peek(self) -> RecordGroup:
        """The next ready group as it was written, without removing it."""
        with self._lock:
            self._sweep()
            return self._groups.ready[0].records if self._groups.ready else []

    def stats(self) -> dict[str, int]:
        """Slime's four statistics, and Troupe's additional ones."""
        with self._lock:
            self._sweep()
            return {
                "current_size": self._groups.held,
                "max_size": self._limits.max_records,
                "total_written": self._totals["written"],
                "total_read": self._totals["read"],
                "open_groups": len(self._groups.open),
                "ready_groups": len(self._groups.ready),
                "groups_finished": self._totals["finished"],
                "groups_timed_out": self._totals["timed_out"],
                "groups_dropped": self._totals["dropped"],
            }

    def done_instances(self) -> list[str]:
        """Instances of delivered or ready groups, one entry per group: a rollout may skip them."""
        with self._lock:
            self._sweep()
            return [*self._store.finished(self.name), *(group.instance for group in self._groups.ready)]

    def begun(self) -> dict[str, int]:
        """Number of records of incomplete groups, by instance."""
        with self._lock:
            self._sweep()
            return {instance: len(group.stored) for instance, group in self._groups.open.items()}

    def restart(self, *, empty: bool, acknowledged: int | None = None) -> None:
        """Start a new rollout: clear the list of finished groups; with `empty` drop all records.

        If the reader names its last delivery, it either has the unacknowledged groups or gets them again. In the latter
        case they are listed as finished again, so that they are not generated once more.
        """
        with self._lock, self._changing():
            self._store.clear(self.name, records=empty)
            if empty:
                self._load()
            elif acknowledged == self._deliveries:
                self._store.forget(_numbers(self._delivered))
                self._delivered = []
            elif acknowledged is not None:
                self._store.finish(self.name, [group.instance for group in self._delivered])

    def _load(self) -> None:
        """Load the state from disk, including unacknowledged deliveries."""
        self._totals = dict.fromkeys(TOTALS, 0) | (self._store.noted(self.name, "totals") or {})
        self._deliveries = int(self._store.noted(self.name, "deliveries") or 0)
        self._groups = Groups(self._limits, self._rules, self._drop)
        delivered = Groups(self._limits, self._rules, self._drop)
        now = self._clock()
        for record, delivery in list(self._store.held(self.name)):
            (self._groups if delivery is None else delivered).add(record, now)
        self._delivered = [*delivered.ready, *delivered.open.values()]

    def _made(self, groups: list[OpenGroup]) -> Delivery:
        """A delivery of groups. Each group is normalised as a whole; its records are then filtered by their original rewards,
        because a valid record's normalised reward may be below -1.
        """
        rules, size = self._rules, self._limits.group_size
        by_instance = {group.instance: group.records for group in groups}
        records: RecordGroup = []
        for group in by_instance.values():
            valid = {record["uid"] for record in group if rules.filter_item(record)}
            copies = [
                dict(record) for record in group
            ]  # a plugin's function may change them, and they may be delivered again
            normalised = [record for record in rules.normalize_group_data(copies) if record["uid"] in valid]
            records += rules.pad_group_data(normalised, size)
        figures = rules.get_group_data_meta_info(by_instance) | {"finished_groups": list(by_instance)}
        return Delivery(self._deliveries, records, figures)

    def _sweep(self) -> None:
        now = self._clock()
        if self._groups.due(now):
            with self._changing():
                late = self._groups.sweep(now)
                if late:
                    self._count(timed_out=late)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make an atomic change: if it fails, the state is reloaded from disk."""
        try:
            with self._store.transaction():
                yield
        except Exception:
            self._load()
            raise

    def _drop(self, group: OpenGroup) -> None:
        self._store.forget(_numbers([group]))
        self._count(dropped=1)

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            self._totals[name] += count
        self._store.note(self.name, "totals", self._totals)


def _numbers(groups: list[OpenGroup]) -> list[int]:
    return [stored.number for group in groups for stored in group.stored]
