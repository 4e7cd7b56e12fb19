"""The value that represents a series in one number: `eval/success` (the last), or `eval/success:max`."""

MEASURES = {"last": "last_value", "max": "max_value", "min": "min_value", "first": "first_value"}
"""Measures after a colon, and their columns of Series; the default is the last value."""


def metric_read(word: str) -> tuple[str, str]:
    """Return key and measure of a metric's expression."""
    key, colon, measure = word.rpartition(":")
    return (key, measure) if colon and measure in MEASURES else (word, "last")
