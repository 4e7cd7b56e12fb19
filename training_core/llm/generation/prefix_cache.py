"""Cache of keys and values of conversations, for requests that continue them (AReaL's `rid`).

H heads, L tokens, D head size. A conversation is identified by its request id and a candidate's index in its group.
Entries are valid only for the version of the weights that computed them. The least recently used entry is evicted.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

Layers = list[tuple[Tensor, Tensor]]
"""Keys and values (H, L, D) of each layer."""
Name = tuple[str, int]
"""(request id, index of the candidate in its group)"""


@dataclass(frozen=True)
class Kept:
    """A text's L tokens, with their keys and values."""

    tokens: tuple[int, ...]
    layers: Layers

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(part.numel() * part.element_size() for pair in self.layers for part in pair)

    def first(self, count: int) -> "Kept":
        """The entry for its first tokens."""
        return Kept(
            self.tokens[:count], [(keys[:, :count], values[:, :count]) for keys, values in self.layers]
        )


class ConversationCache:
    """A cache of at most `limit` bytes. Thread-safe: several calls may generate at the same time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        """Bytes in use."""
        self.reused = 0
        """Tokens that were not recomputed since the engine was constructed."""
        self._version = 0
        self._lock = threading.RLock()
        self._kept: OrderedDict[Name, Kept] = OrderedDict()
        """Entries, most recently used last."""

    def begin(self, version: int) -> None:
        """Start using weights of this version: entries of other versions are dropped."""
        with self._lock:
            if version != self._version:
                self.forget()
                self._version = version

    def forget(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    def known(self, names: Iterable[Name], text: Sequence[int]) -> Kept | None:
        """The longest prefix of `text`, without its last token, in one of these conversations; None if there is none."""
        best: tuple[int, Kept] | None = None
        with self._lock:
            for name in names:
                if (kept := self._kept.get(name)) is not None:
                    self._kept.move_to_end(name)
                    alike = _alike(kept.tokens, text[:-1])
                    best = (alike, kept) if alike and (best is None or alike > best[0]) else best
            if best is None:
                return None
            self.reused += best[0]
        return best[1].first(best[0])

    def keep(self, name: Name, text: Sequence[int], layers: Callable[[], Layers]) -> None:
        """Store the current state of a conversation, replacing its previous one; `layers` belong to the first tokens of `text`."""
        found = layers()
        kept = Kept(tuple(text[: found[0][0].shape[1]]), found)
        with self._lock:
            self._drop(name)
            if kept.size > self.limit:
                return
            self._kept[name] = kept
            self.size += kept.size
            while self.size > self.limit:
                self._drop(next(iter(self._kept)))

    def _drop(self, name: Name) -> None:
        before = self._kept.pop(name, None)
        self.size -= before.size if before else 0


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix of two texts, in tokens."""
    shorter = min(len(one), len(other))
    if tuple(one[:shorter]) == tuple(other[:shorter]):
        return shorter
    return next(place for place in range(shorter) if one[place] != other[place])
