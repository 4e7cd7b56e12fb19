"""What the API takes and gives."""

import math
from typing import Any

from rest_framework import serializers

from webapp.checkpoints.models import Checkpoint
from webapp.runs.facts import facts_of
from webapp.runs.models import LogLine, Run
from webapp.runs.selectors import run_summary
from webapp.transcripts.models import Episode


class LaunchSerializer(serializers.Serializer[Any]):
    """A run to launch: a preset with overrides, or a whole config."""

    preset = serializers.CharField(required=False, max_length=80)
    overrides = serializers.DictField(
        required=False, help_text="Dotted field paths to values, e.g. run.seed."
    )
    config = serializers.DictField(required=False, help_text="A whole config tree, instead of a preset.")
    name = serializers.CharField(required=False, max_length=120, allow_blank=True)
    project = serializers.SlugField(
        required=False, max_length=60, help_text="Default: the caller's first project."
    )
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=20)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Exactly one of preset and config."""
        if ("preset" in attrs) == ("config" in attrs):
            raise serializers.ValidationError("give either preset (with overrides) or config")
        return attrs

    def to_internal_value(self, data: Any) -> Any:
        """Unknown keys are refused: a typing error must not launch something else."""
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            raise serializers.ValidationError({key: ["there is no such field"] for key in sorted(unknown)})
        return super().to_internal_value(data)


class RunSerializer(serializers.Serializer[Run]):
    """A run's summary; the detail adds its config and facts."""

    def to_representation(self, instance: Run) -> dict[str, Any]:
        """See webapp.runs.selectors.run_summary."""
        summary = run_summary(instance)
        if self.context.get("detail"):
            summary |= {"config": instance.config, "facts": facts_of(instance)}
            summary["values_dropped"] = instance.values_dropped
        return summary


class FiniteFloat(serializers.FloatField):
    """NaN and infinities as words, since JSON has none."""

    def to_representation(self, value: float) -> Any:
        """Number or "NaN", "Infinity", "-Infinity"."""
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


class StopSerializer(serializers.Serializer[Any]):
    """How a run ends."""

    now = serializers.BooleanField(
        default=False, help_text="Whether it does not wait for its iteration: what that one has done is lost."
    )


class ResumeSerializer(serializers.Serializer[Any]):
    """How a run goes on."""

    overrides = serializers.DictField(
        required=False, help_text="Dotted field paths of the config to their new values, from here on."
    )
    checkpoint = serializers.CharField(
        required=False, max_length=40, help_text="last, best, or an iteration; without it the last."
    )

    def to_internal_value(self, data: Any) -> Any:
        """Unknown keys are refused: a typing error must not resume from something else."""
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            raise serializers.ValidationError({key: ["there is no such field"] for key in sorted(unknown)})
        return super().to_internal_value(data)


class EpisodeSerializer(serializers.ModelSerializer[Episode]):
    """An episode's facts."""

    episode_return = FiniteFloat()

    class Meta:
        model = Episode
        exclude = ("cursor", "words")


class CheckpointSerializer(serializers.ModelSerializer[Checkpoint]):
    """A checkpoint."""

    class Meta:
        model = Checkpoint
        exclude = ("cursor",)


class LogLineSerializer(serializers.ModelSerializer[LogLine]):
    """A log line."""

    class Meta:
        model = LogLine
        fields = ("id", "attempt", "time", "level", "source", "message")
