"""The serializer of runs, for operations that are not routes yet."""

from typing import Any

from rest_framework import serializers

from webapp.runs.models import Run
from webapp.runs.selectors import run_summary


class RunSerializer(serializers.Serializer[Run]):
    """A run's summary."""

    def to_representation(self, instance: Run) -> dict[str, Any]:
        """Return webapp.runs.selectors.run_summary."""
        return run_summary(instance)
