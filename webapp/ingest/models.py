"""Ingest progress: one high-water mark per producer."""

from django.db import models

from webapp.runs.models import Run


class Producer(models.Model):
    """A process that writes events to a run. Its row is locked while one of its batches is stored."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="producers")
    producer = models.CharField(max_length=40)
    attempt = models.IntegerField()
    program = models.BooleanField(default=False, db_default=False)
    """Whether it is a custom program that reports its own end."""
    role = models.CharField(max_length=60, default="", db_default="")
    """The part of a custom program in its run; empty: the main program."""
    acknowledged = models.BigIntegerField(default=0)
    """Last stored seq."""
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "producer"], name="one_mark_per_producer")]
