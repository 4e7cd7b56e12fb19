"""Beginnings that different prompts share: a system prompt, examples, the words before a task."""

from collections.abc import Iterable, Mapping

Tokens = tuple[int, ...]

SHORTEST = 32
"""Tokens from which on a shared beginning is worth computing apart."""


def shared_prefixes(texts: Iterable[Tokens]) -> Mapping[Tokens, Tokens]:
    """For each text the beginning that it shares with others; texts that share less than SHORTEST tokens are left out.

    Texts whose first SHORTEST tokens are equal share one beginning, the longest that all of them have. It always leaves a
    text its last token.
    """
    alike: dict[Tokens, set[Tokens]] = {}
    for text in texts:
        if len(text) > SHORTEST:
            alike.setdefault(text[:SHORTEST], set()).add(text)
    return {text: _shared(cluster) for cluster in alike.values() if len(cluster) > 1 for text in cluster}


def _shared(texts: set[Tokens]) -> Tokens:
    """The longest common beginning: that of the first and the last in lexicographic order."""
    first, last = min(texts), max(texts)
    most = min(map(len, texts)) - 1
    length = next((place for place in range(most) if first[place] != last[place]), most)
    return first[:length]
