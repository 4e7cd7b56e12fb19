"""Checkpoints written by runs."""

from django.db import models

from webapp.runs.models import Run


class Checkpoint(models.Model):
    """One checkpoint folder."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    iteration = models.IntegerField()
    path = models.CharField(max_length=400)
    """Relative to the run folder."""
    size = models.BigIntegerField()
    """Bytes."""
    metrics = models.JSONField(default=dict)
    best = models.BooleanField(default=False)
    pinned = models.BooleanField(default=False)
    """Exempt from retention."""
    removed = models.BooleanField(default=False)
    """Deleted by retention."""
    damaged = models.TextField(blank=True)
    """Error in its files; empty if none is known."""
    time = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "path"], name="one_checkpoint_per_path")]
        ordering = ["-iteration"]
