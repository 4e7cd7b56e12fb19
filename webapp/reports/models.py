"""Reports and their versions."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project


class Report(models.Model):
    """Markdown about the runs of a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="reports")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    revision = models.IntegerField(default=1)
    """Goes up with every save: who saves says which one they began from."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-updated_at", "-pk"]

    def __str__(self) -> str:
        return self.title


class ReportVersion(models.Model):
    """A text that was saved. Never removed while its report is there."""

    class Kind(models.TextChoices):
        """saved: it became the report; beside: somebody else had saved meanwhile, so that it was kept, but did not."""

        SAVED = "saved"
        BESIDE = "beside"

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="versions")
    number = models.IntegerField()
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    title = models.CharField(max_length=200)
    text = models.TextField(blank=True)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.SAVED)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["report", "number"], name="one_version_per_number")]
        ordering = ["-number"]
