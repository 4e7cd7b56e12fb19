"""The value that represents a series in one number: `eval/success` (the last), or `eval/success:max`.

A name without a slash has a prefix where it could be a config field or a fact of the run: `metric.loss`.
"""

MEASURES = {"last": "last_value", "max": "max_value", "min": "min_value", "first": "first_value"}
"""Measures after a colon, and their columns of Series; the default is the last value."""
PREFIX = "metric."


def is_metric(word: str) -> bool:
    """Whether the word can only be a metric."""
    return "/" in word or word.startswith(PREFIX)


def metric_word(key: str) -> str:
    """Return the word for the last value of a metric."""
    return key if "/" in key else PREFIX + key


def metric_read(word: str) -> tuple[str, str]:
    """Return key and measure of a metric's expression."""
    word = word.removeprefix(PREFIX)
    key, colon, measure = word.rpartition(":")
    return (key, measure) if colon and measure in MEASURES else (word, "last")
