"""The fields of JSON Lines."""

from training_core.config.base import Section


class JsonLinesFields(Section):
    """Fields of `[reporting]` for JSON Lines."""

    jsonl: bool = False
    """Also write every metric to metrics.jsonl in the run's folder, one JSON object per line."""
