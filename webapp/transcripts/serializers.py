"""Serializers of episodes."""

import math
from typing import Any

from rest_framework import serializers

from webapp.transcripts.models import Episode


class FiniteFloat(serializers.FloatField):
    """NaN and infinities as strings, because JSON has none."""

    def to_representation(self, value: float) -> Any:
        """Return a number or "NaN", "Infinity", "-Infinity"."""
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


class EpisodeSerializer(serializers.ModelSerializer[Episode]):
    """An episode's facts."""

    episode_return = FiniteFloat()

    class Meta:
        model = Episode
        exclude = ("cursor", "words", "groups")
