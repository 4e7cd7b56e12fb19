"""What has been received: one high-water mark per producer."""

from django.db import models

from webapp.runs.models import Run


class Producer(models.Model):
    """A process that writes events to a run. Locked while a batch of its own is stored."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="producers")
    producer = models.CharField(max_length=40)
    attempt = models.IntegerField()
    acknowledged = models.BigIntegerField(default=0)
    """Last seq stored."""
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "producer"], name="one_mark_per_producer")]
