"""Serializers of checkpoints."""

from rest_framework import serializers

from webapp.checkpoints.models import Checkpoint


class CheckpointSerializer(serializers.ModelSerializer[Checkpoint]):
    """A checkpoint."""

    class Meta:
        model = Checkpoint
        exclude = ("cursor",)
