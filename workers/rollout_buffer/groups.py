"""Groups of records by instance: open until whole or timed out, then ready to be handed out. No clock, disk or lock here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.rollout_buffer.rules import Limits, Record, Rules, valid_share


class Kept(NamedTuple):
    """A record with its number on disk."""

    number: int
    record: Record


@dataclass
class OpenGroup:
    """Records of one instance so far."""

    instance: str
    kept: list[Kept] = field(default_factory=list)
    touched: float = 0.0
    """When the last one came, in seconds of the caller's clock."""

    @property
    def records(self) -> list[Record]:
        """Without their numbers."""
        return [each.record for each in self.kept]


class Groups:
    """What a buffer holds. The rules decide when a group is whole; one that is whole but not valid is given to `drop`."""

    def __init__(self, limits: Limits, rules: Rules, drop: Callable[[OpenGroup], None]) -> None:
        self.limits = limits
        self.rules = rules
        self.open: dict[str, OpenGroup] = {}
        self.ready: list[OpenGroup] = []
        """In the order in which they became whole."""
        self.held = 0
        """Records in all of them."""
        self._drop = drop
        self._due = 0.0
        """No open group times out before."""

    def takes(self, instance: str) -> bool:
        """Whether there is room: a group that is begun may be completed, or a full buffer would never empty."""
        return self.held < self.limits.max_records or instance in self.open

    def add(self, kept: Kept, now: float) -> None:
        """Take a record; its group may become whole by it, and the next record of the instance opens another one."""
        instance = kept.record["instance_id"]
        group = self.open.setdefault(instance, OpenGroup(instance))
        group.kept.append(kept)
        group.touched = now
        self.held += 1
        valid, finished = self.rules.is_valid_group(instance, group.records)
        if finished:
            self._close(group, valid)

    def due(self, now: float) -> bool:
        """Whether a group may have timed out."""
        return now > self._due

    def sweep(self, now: float) -> int:
        """End groups whose last record came too long ago: kept where enough of them came, and enough of those are valid.

        Returns how many there were.
        """
        limits = self.limits
        late = [group for group in self.open.values() if now - group.touched > limits.timeout]
        for group in late:
            enough = len(group.kept) >= limits.minimum_ratio * limits.group_size
            self._close(group, enough and valid_share(group.records, limits) >= limits.minimum_ratio)
        self._due = min((group.touched for group in self.open.values()), default=now) + limits.timeout
        return len(late)

    def take(self, most: int | None) -> list[OpenGroup]:
        """Remove ready groups, oldest first: all, or as many as have `most` records together (at least one).

        Of one instance only one at a time: what is handed out tells groups apart by their instance.
        """
        taken: dict[str, OpenGroup] = {}
        left: list[OpenGroup] = []
        count = 0
        for group in self.ready:
            fits = not taken or most is None or count + len(group.kept) <= most
            if fits and not left and group.instance not in taken:
                taken[group.instance] = group
                count += len(group.kept)
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
            self.held -= len(group.kept)
            self._drop(group)
