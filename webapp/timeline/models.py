"""Batches of updates, and the utilisation of devices."""

from django.db import models

from webapp.runs.models import Run


class Batch(models.Model):
    """Episodes of one iteration's update; large batches are split over several rows."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count at the time of storage."""
    iteration = models.IntegerField()
    consumed = models.FloatField()
    """When the update received it, seconds since the epoch."""
    learnt = models.FloatField()
    """When every policy had finished its update."""
    data = models.BinaryField()
    """zstd-compressed JSON: a list of workers.telemetry.events.BatchEpisode."""

    class Meta:
        indexes = [models.Index(fields=["run", "iteration"])]


class Utilisation(models.Model):
    """Samples of the utilisation of one worker's device."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="utilisation")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count at the time of storage."""
    worker = models.CharField(max_length=80)
    device = models.CharField(max_length=200)
    start = models.FloatField()
    end = models.FloatField()
    """First and last sample, seconds since the epoch."""
    data = models.BinaryField()
    """zstd-compressed JSON: [[time, percent], ...]."""

    class Meta:
        indexes = [models.Index(fields=["run", "start"])]
