"""What of a series is looked at where one number stands for it: `eval/success`, or `eval/success:max`."""

MEASURES = {"last": "last_value", "max": "max_value", "min": "min_value", "first": "first_value"}
"""Words after a colon, and the columns of Series that they mean; without one it is the last value."""


def metric_read(word: str) -> tuple[str, str]:
    """Key and measure of a metric's word."""
    key, colon, measure = word.rpartition(":")
    return (key, measure) if colon and measure in MEASURES else (word, "last")
