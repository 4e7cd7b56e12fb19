"""Groups of records by instance: open until complete or timed out, then ready for delivery. Uses no clock, disk or lock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.rollout_buffer.rules import BufferLimits, Record, Rules, valid_share


class StoredRecord(NamedTuple):
    """A record with its number on disk."""

    number: int
    record: Record


@dataclass
class OpenGroup:
    """The records of one instance so far."""

    instance: str
    stored: list[StoredRecord] = field(default_factory=list)
    touched: float = 0.0
    """Arrival time of the last record, in seconds of the caller's clock."""

    @property
    def records(self) -> list[Record]:
        """The records without their numbers."""
        return [stored.record for stored in self.stored]


class Groups:
    """The groups of a buffer. The rules decide when a group is complete; `drop` is called with a complete but invalid group."""

    def __init__(self, limits: BufferLimits, rules: Rules, drop: Callable[[OpenGroup], None]) -> None:
        self.limits = limits
        self.rules = rules
        self.open: dict[str, OpenGroup] = {}
        self.ready: list[OpenGroup] = []
        """Complete groups, in the order of completion."""
        self.held = 0
        """Number of records in all groups."""
        self._drop = drop
        self._due = 0.0
        """Time before which no open group times out."""

    def takes(self, instance: str) -> bool:
        """Whether there is room. Open groups may always be completed, or a full buffer would never empty."""
        return self.held < self.limits.max_records or instance in self.open

    def add(self, stored: StoredRecord, now: float) -> None:
        """Add a record. If it completes its group, the next record of the instance opens another one."""
        instance = stored.record["instance_id"]
        group = self.open.setdefault(instance, OpenGroup(instance))
        group.stored.append(stored)
        group.touched = now
        self.held += 1
        valid, finished = self.rules.is_valid_group(instance, group.records)
        if finished:
            self._close(group, valid)

    def due(self, now: float) -> bool:
        """Whether a group may have timed out."""
        return now > self._due

    def sweep(self, now: float) -> int:
        """Close groups whose last record is older than the timeout; keep those with enough records, of which enough are valid.

        Returns the number of closed groups.
        """
        limits = self.limits
        late = [group for group in self.open.values() if now - group.touched > limits.timeout]
        for group in late:
            enough = len(group.stored) >= limits.minimum_ratio * limits.group_size
            self._close(group, enough and valid_share(group.records, limits) >= limits.minimum_ratio)
        self._due = min((group.touched for group in self.open.values()), default=now) + limits.timeout
        return len(late)

    def take(self, most: int | None) -> list[OpenGroup]:
        """Remove and return ready groups, oldest first: all, or at most `most` records in total (but at least one group).

        At most one group per instance, because a delivery identifies groups by their instance.
        """
        taken: dict[str, OpenGroup] = {}
        left: list[OpenGroup] = []
        count = 0
        for group in self.ready:
            fits = not taken or most is None or count + len(group.stored) <= most
            if fits and not left and group.instance not in taken:
                taken[group.instance] = group
                count += len(group.stored)
            else:
                left.append(group)
        self.ready = left
        self.held -= count
        return list(taken.values())

    def _close(self, group: OpenGroup, valid: bool) -> None:
        del self.open[group.instance]
        if valid:
            self.ready.append(group)
        else:
            self.held -= len(group.stored)
            self._drop(group)
