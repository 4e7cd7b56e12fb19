"""What updates learnt from."""

from django.db import models

from webapp.runs.models import Run


class Batch(models.Model):
    """Episodes of one iteration's update, or some of them where there are many."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count when it was stored."""
    iteration = models.IntegerField()
    consumed = models.FloatField()
    """When the update took it, seconds since the epoch."""
    learnt = models.FloatField()
    """When every policy was done with it."""
    data = models.BinaryField()
    """zstd-compressed JSON: a list of workers.launch.events.BatchEpisode."""

    class Meta:
        indexes = [models.Index(fields=["run", "iteration"])]
