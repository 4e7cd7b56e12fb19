"""Serializers of requests that launch, end or continue a run."""

from typing import Any

from rest_framework import serializers

from webapp.api.serializers import StrictSerializer


class LaunchSerializer(StrictSerializer):
    """A run to launch: a preset with overrides, or a complete config."""

    preset = serializers.CharField(required=False, max_length=80)
    overrides = serializers.DictField(
        required=False, help_text="Dotted field paths to values, e.g. run.seed."
    )
    config = serializers.DictField(required=False, help_text="A complete config tree, instead of a preset.")
    name = serializers.CharField(required=False, max_length=120, allow_blank=True)
    project = serializers.SlugField(
        required=False, max_length=60, help_text="Default: the caller's oldest project."
    )
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=20)
    provenance = serializers.DictField(
        required=False, help_text="Command, machine and repositories of the launching program."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require exactly one of preset and config."""
        if ("preset" in attrs) == ("config" in attrs):
            raise serializers.ValidationError("give either preset (with overrides) or config")
        return attrs


class StopSerializer(serializers.Serializer[Any]):
    """Options for stopping a run."""

    now = serializers.BooleanField(
        default=False, help_text="Stop without waiting for the current iteration: its work is lost."
    )


class ResumeSerializer(StrictSerializer):
    """Options for resuming a run."""

    overrides = serializers.DictField(
        required=False, help_text="Dotted field paths of the config to their new values, from here on."
    )
    checkpoint = serializers.CharField(
        required=False, max_length=40, help_text="last, best, or an iteration; default: last."
    )


class ForkSerializer(StrictSerializer):
    """A run that starts from a checkpoint."""

    overrides = serializers.DictField(required=False, help_text="Dotted field paths of the config to values.")
    name = serializers.CharField(required=False, max_length=120, allow_blank=True)
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=20)
    provenance = serializers.DictField(
        required=False, help_text="Command, machine and repositories of the launching program."
    )
