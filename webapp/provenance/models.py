"""What a run was: the code, machines and data of its launch and of each attempt."""

from django.db import models

from webapp.runs.models import Run


class ProvenanceManager(models.Manager["Provenance"]):
    """Defers the diffs, which only the Config tab and the API read."""

    def get_queryset(self) -> models.QuerySet["Provenance"]:
        """Return records without their diffs."""
        return super().get_queryset().defer("diffs")


class Provenance(models.Model):
    """The record of a launch or of one attempt."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="provenance")
    attempt = models.IntegerField()
    """Number of the attempt; 0 for the launch."""
    facts = models.JSONField(default=dict)
    """webapp.provenance.services.Reported, without diffs."""
    diffs = models.JSONField(default=dict)
    """Folder of a repository -> its diff, zlib in base64."""
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProvenanceManager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt"], name="one_provenance_per_attempt")]
        ordering = ["attempt"]
