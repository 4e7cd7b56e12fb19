"""Cache of keys and values of conversations, for requests that continue them (AReaL's `rid`).

H heads, L tokens, D head size. A conversation is identified by its request id and a candidate's index in its group.
Entries are valid only for the version of the weights that computed them. The least recently used entry is evicted.

Different prompts may share a prefix too: a system prompt, examples, the text before a task.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

Tokens = tuple[int, ...]
Layers = list[tuple[Tensor, Tensor]]
"""Keys and values (H, L, D) of each layer."""
ConversationName = tuple[str, int]
"""(request id, index of the candidate in its group)"""
SHORTEST = 32
"""Minimum length in tokens of a prefix that is computed separately."""


@dataclass(frozen=True)
class CachedPrefix:
    """A text's L tokens, with their keys and values."""

    tokens: tuple[int, ...]
    layers: Layers

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(part.numel() * part.element_size() for pair in self.layers for part in pair)

    def prefix(self, count: int) -> "CachedPrefix":
        """The entry for its first tokens."""
        return CachedPrefix(
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
        self._entries: OrderedDict[ConversationName, CachedPrefix] = OrderedDict()
        """Entries, most recently used last."""

    def use_version(self, version: int) -> None:
        """Start using weights of this version: entries of other versions are dropped."""
        with self._lock:
            if version != self._version:
                self.clear()
                self._version = version

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()
            self.size = 0

    def lookup(self, names: Iterable[ConversationName], text: Sequence[int]) -> CachedPrefix | None:
        """The longest prefix of `text`, without its last token, in one of these conversations; None if there is none."""
        best: tuple[int, CachedPrefix] | None = None
        with self._lock:
            for name in names:
                if (entry := self._entries.get(name)) is not None:
                    self._entries.move_to_end(name)
                    length = _common_prefix_length(entry.tokens, text[:-1])
                    best = (length, entry) if length and (best is None or length > best[0]) else best
            if best is None:
                return None
            self.reused += best[0]
        return best[1].prefix(best[0])

    def store(self, name: ConversationName, text: Sequence[int], layers: Callable[[], Layers]) -> None:
        """Store the current state of a conversation, replacing its previous one; `layers` belong to the first tokens of `text`."""
        computed = layers()
        entry = CachedPrefix(tuple(text[: computed[0][0].shape[1]]), computed)
        with self._lock:
            self._remove(name)
            if entry.size > self.limit:
                return
            self._entries[name] = entry
            self.size += entry.size
            while self.size > self.limit:
                self._remove(next(iter(self._entries)))

    def _remove(self, name: ConversationName) -> None:
        previous = self._entries.pop(name, None)
        self.size -= previous.size if previous else 0


def shared_prefixes(texts: Iterable[Tokens]) -> Mapping[Tokens, Tokens]:
    """For each text, the prefix that it shares with others; texts that share less than SHORTEST tokens are omitted.

    Texts with equal first SHORTEST tokens share one prefix, the longest common one. It never includes a text's last
    token.
    """
    alike: dict[Tokens, set[Tokens]] = {}
    for text in texts:
        if len(text) > SHORTEST:
            alike.setdefault(text[:SHORTEST], set()).add(text)
    return {text: _shared(cluster) for cluster in alike.values() if len(cluster) > 1 for text in cluster}


def _shared(texts: set[Tokens]) -> Tokens:
    """The longest common prefix: that of the first and the last text in lexicographic order."""
    first, last = min(texts), max(texts)
    return first[: min(_common_prefix_length(first, last), min(map(len, texts)) - 1)]


def _common_prefix_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix of two texts, in tokens."""
    shorter = min(len(one), len(other))
    if tuple(one[:shorter]) == tuple(other[:shorter]):
        return shorter
    return next(index for index in range(shorter) if one[index] != other[index])
