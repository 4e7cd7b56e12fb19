"""Keys and values of conversations, kept between calls for requests that go on from them (AReaL's `rid`).

H heads, L tokens, D head size. A conversation is known by its request id and a candidate's place in its group. What is
kept was computed by one version of the weights and is of use to that one alone. Who was asked for longest ago makes room.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

Layers = list[tuple[Tensor, Tensor]]
"""Keys and values (H, L, D) of each layer."""
Name = tuple[str, int]
"""(request id, place of the candidate in its group)"""


@dataclass(frozen=True)
class Kept:
    """A text's tokens (L of them), and what the model computed of each."""

    tokens: tuple[int, ...]
    layers: Layers

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.numel() * part.element_size() for pair in self.layers for part in pair)

    def first(self, count: int) -> "Kept":
        """Its first tokens."""
        return Kept(
            self.tokens[:count], [(keys[:, :count], values[:, :count]) for keys, values in self.layers]
        )


class ConversationCache:
    """What is kept, within `limit` bytes. Thread-safe: several calls may generate at a time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        """Bytes in use."""
        self.reused = 0
        """Tokens that were not computed again since the engine was made."""
        self._version = 0
        self._lock = threading.RLock()
        self._kept: OrderedDict[Name, Kept] = OrderedDict()
        """The one asked for last comes last."""

    def begin(self, version: int) -> None:
        """Weights of this version speak now: what others computed is dropped."""
        with self._lock:
            if version != self._version:
                self.forget()
                self._version = version

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    def known(self, names: Iterable[Name], text: Sequence[int]) -> Kept | None:
        """The longest beginning of `text`, its last token left out, that one of these conversations has; None if none."""
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
        """Keep a conversation as it is now, in place of what it was; `layers` are of the first tokens of `text`."""
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
    """How many tokens two texts have in common from the start."""
    shorter = min(len(one), len(other))
    if tuple(one[:shorter]) == tuple(other[:shorter]):
        return shorter
    return next(place for place in range(shorter) if one[place] != other[place])
