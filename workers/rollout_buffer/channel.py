"""One queue of the service: writers on one side, one reader on the other, on disk in between."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workers.rollout_buffer.groups import Groups, Kept, OpenGroup
from workers.rollout_buffer.rules import Group, Limits, Record, checked_record, make_rules
from workers.rollout_buffer.store import Store

Hooks = Mapping[str, Callable[..., Any]]
TOTALS = ("written", "read", "finished", "timed_out", "dropped")


class Full(Exception):
    """The buffer holds all that it may; the writer asks again later."""


@dataclass(frozen=True)
class Delivery:
    """What a reader gets."""

    number: int
    """Counts up; a reader that names it in its next request has it."""
    records: Group
    meta_info: dict[str, Any]


class Channel:
    """Thread-safe. `clock` counts seconds; groups that were open when the service ended wait anew."""

    def __init__(
        self, name: str, store: Store, limits: Limits, hooks: Hooks, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._store = store
        self._clock = clock
        self._lock = store.lock
        self._under_way: list[OpenGroup] = []
        """Handed out, and not acknowledged."""
        self.configure(limits, hooks)

    @property
    def limits(self) -> Limits:
        """As they are now."""
        return self._limits

    def configure(self, limits: Limits, hooks: Hooks) -> None:
        """Other rules from here on; what is held is grouped anew by them."""
        with self._lock:
            self._limits, self._rules = limits, make_rules(limits, hooks)
            with self._changing():
                self._load()

    def write(self, given: Any) -> Record:
        """Keep a record. Raises ValueError where it is none, Full where there is no room."""
        record = checked_record(given)
        with self._lock:
            self._sweep()
            if not self._groups.takes(record["instance_id"]):
                raise Full
            with self._changing():
                number = self._store.add(self.name, record)
                if number is not None:
                    self._count(written=1)
                    self._groups.add(Kept(number, record), self._clock())
        return record

    def read(self, acknowledged: int | None, most: int | None = None) -> Delivery:
        """Hand out groups that are ready, all or about `most` records.

        A reader that gives no number takes them for good. One that does is given what is under way again until it
        names it: nothing is lost between two processes, and nothing comes twice.
        """
        with self._lock:
            self._sweep()
            with self._changing():
                if self._under_way and acknowledged is not None and acknowledged != self._deliveries:
                    return self._made(self._under_way)
                self._store.forget(_numbers(self._under_way))
                self._under_way = self._groups.take(most)
                if not self._under_way:
                    return self._made([])
                self._deliveries += 1
                self._store.note(self.name, "deliveries", self._deliveries)
                made = self._made(self._under_way)
                self._store.finish(self.name, made.meta_info["finished_groups"])
                self._count(
                    read=sum(len(group.kept) for group in self._under_way), finished=len(self._under_way)
                )
                self._store.deliver(_numbers(self._under_way), self._deliveries)
                if acknowledged is None:
                    self._store.forget(_numbers(self._under_way))
                    self._under_way = []
                return made

    def peek(self) -> Group:
        """The next ready group as it was written; it stays."""
        with self._lock:
            self._sweep()
            return self._groups.ready[0].records if self._groups.ready else []

    def stats(self) -> dict[str, int]:
        """Slime's four figures, and ours."""
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
        """Instances of groups that are handed over or ready, one entry per group: a rollout may skip them."""
        with self._lock:
            self._sweep()
            return [*self._store.finished(self.name), *(group.instance for group in self._groups.ready)]

    def begun(self) -> dict[str, int]:
        """Records of groups that are not whole yet, by instance."""
        with self._lock:
            self._sweep()
            return {instance: len(group.kept) for instance, group in self._groups.open.items()}

    def restart(self, *, empty: bool, acknowledged: int | None = None) -> None:
        """A new rollout begins: the list of finished groups starts afresh; with `empty` all that is held is dropped.

        A reader that says which delivery it knows of has what is under way, or is given it again: then those groups are
        finished anew, lest they be made once more.
        """
        with self._lock, self._changing():
            self._store.clear(self.name, records=empty)
            if empty:
                self._load()
            elif acknowledged == self._deliveries:
                self._store.forget(_numbers(self._under_way))
                self._under_way = []
            elif acknowledged is not None:
                self._store.finish(self.name, [group.instance for group in self._under_way])

    def _load(self) -> None:
        """Everything from disk. What a reader had not acknowledged is under way again."""
        self._totals = dict.fromkeys(TOTALS, 0) | (self._store.noted(self.name, "totals") or {})
        self._deliveries = int(self._store.noted(self.name, "deliveries") or 0)
        self._groups = Groups(self._limits, self._rules, self._drop)
        sent = Groups(self._limits, self._rules, self._drop)
        now = self._clock()
        for kept, delivery in list(self._store.held(self.name)):
            (self._groups if delivery is None else sent).add(kept, now)
        self._under_way = [*sent.ready, *sent.open.values()]

    def _made(self, groups: list[OpenGroup]) -> Delivery:
        """Groups as they go out. Records are filtered by the rewards that were written (a good record's normalised
        reward may be below -1), after the whole group was normalised.
        """
        rules, size = self._rules, self._limits.group_size
        whole = {group.instance: group.records for group in groups}
        records: Group = []
        for group in whole.values():
            wanted = {record["uid"] for record in group if rules.filter_item(record)}
            copies = [
                dict(record) for record in group
            ]  # a plugin's function may change them, and they may go out again
            left = [record for record in rules.normalize_group_data(copies) if record["uid"] in wanted]
            records += rules.pad_group_data(left, size)
        figures = rules.get_group_data_meta_info(whole) | {"finished_groups": list(whole)}
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
        """A change, whole or not at all: where it fails, memory goes back to what the disk says."""
        try:
            with self._store.whole():
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
    return [kept.number for group in groups for kept in group.kept]
