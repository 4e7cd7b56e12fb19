"""Limits of projects on the cluster and the database."""

from django.core.validators import MinValueValidator
from django.db import models

from webapp.accounts.models import Project


class Quota(models.Model):
    """Limits of one project; None is no limit. Pages, API and commands use the same field names."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="quota")
    runs = models.PositiveIntegerField("Concurrent runs", null=True, blank=True)
    cpus = models.FloatField("CPU cores in use", null=True, blank=True, validators=[MinValueValidator(0)])
    gpus = models.FloatField("GPUs in use", null=True, blank=True, validators=[MinValueValidator(0)])
    points = models.PositiveBigIntegerField("Stored points", null=True, blank=True)
    gigabytes = models.FloatField(
        "Stored gigabytes", null=True, blank=True, validators=[MinValueValidator(0)]
    )
    """10^9 bytes of transcripts in the database and of checkpoints on disk."""
    locked = models.BooleanField("Administrators only", default=False)
    """Prevents changes by owners of the project; set in the Django admin."""
    stored_points = models.BigIntegerField(default=0)
    stored_bytes = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField(null=True, blank=True)
    """Time of the last measurement of the two above."""

    def __str__(self) -> str:
        return f"quota of {self.project_id}"
