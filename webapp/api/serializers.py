"""Base classes of serializers."""

from typing import Any

from rest_framework import serializers


class StrictSerializer(serializers.Serializer[Any]):
    """Rejects unknown keys: a misspelled key must not start something else."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated data. Raises ValidationError with a message for each unknown key."""
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            raise serializers.ValidationError({key: ["there is no such field"] for key in sorted(unknown)})
        return super().to_internal_value(data)
