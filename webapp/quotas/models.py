"""What a project may take of the cluster and of the store."""

from django.core.validators import MinValueValidator
from django.db import models

from webapp.accounts.models import Project


class Quota(models.Model):
    """Limits of one project; None is no limit. Its field names are those of page, API and command."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="quota")
    runs = models.PositiveIntegerField("Runs at once", null=True, blank=True)
    cpus = models.FloatField("CPU cores at once", null=True, blank=True, validators=[MinValueValidator(0)])
    gpus = models.FloatField("GPUs at once", null=True, blank=True, validators=[MinValueValidator(0)])
    points = models.PositiveBigIntegerField("Stored points", null=True, blank=True)
    gigabytes = models.FloatField(
        "Stored gigabytes", null=True, blank=True, validators=[MinValueValidator(0)]
    )
    """10^9 bytes of transcripts in the database and of checkpoints on disk."""
    locked = models.BooleanField("Administrators only", default=False)
    """Owners of the project may not change it; set in the Django admin."""
    stored_points = models.BigIntegerField(default=0)
    stored_bytes = models.BigIntegerField(default=0)
    measured_at = models.DateTimeField(null=True, blank=True)
    """When the two above were counted."""

    def __str__(self) -> str:
        return f"quota of {self.project_id}"
