"""Serializers of runs and their logs."""

from typing import Any

from rest_framework import serializers

from webapp.runs.facts import facts_of
from webapp.runs.models import LogLine, Run
from webapp.runs.selectors import run_summary


class RunSerializer(serializers.Serializer[Run]):
    """A run's summary; the detail adds its config and facts."""

    def to_representation(self, instance: Run) -> dict[str, Any]:
        """Return webapp.runs.selectors.run_summary."""
        summary = run_summary(instance)
        if self.context.get("detail"):
            summary |= {"config": instance.config, "facts": facts_of(instance)}
            summary["values_dropped"] = instance.values_dropped
        return summary


class LogLineSerializer(serializers.ModelSerializer[LogLine]):
    """A log line."""

    class Meta:
        model = LogLine
        fields = ("id", "attempt", "time", "level", "source", "message")
