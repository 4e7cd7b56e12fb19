"""Common prefixes of different prompts: a system prompt, examples, the text before a task."""

from collections.abc import Iterable, Mapping

Tokens = tuple[int, ...]

SHORTEST = 32
"""Minimum length in tokens of a prefix that is computed separately."""


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
    most = min(map(len, texts)) - 1
    length = next((index for index in range(most) if first[index] != last[index]), most)
    return first[:length]
