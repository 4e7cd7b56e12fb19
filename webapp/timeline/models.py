"""What updates learnt from, and how busy devices were."""

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
    """zstd-compressed JSON: a list of workers.telemetry.events.BatchEpisode."""

    class Meta:
        indexes = [models.Index(fields=["run", "iteration"])]


class Utilisation(models.Model):
    """Samples of how busy one worker's device was."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="utilisation")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count when it was stored."""
    worker = models.CharField(max_length=80)
    device = models.CharField(max_length=200)
    start = models.FloatField()
    end = models.FloatField()
    """First and last moment, seconds since the epoch."""
    data = models.BinaryField()
    """zstd-compressed JSON: [[moment, percent], ...]."""

    class Meta:
        indexes = [models.Index(fields=["run", "start"])]
