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
    """Incremented by every save; a save names the revision it is based on."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-updated_at", "-pk"]

    def __str__(self) -> str:
        return self.title


class ReportVersion(models.Model):
    """A saved text. Not deleted before its report."""

    class Kind(models.TextChoices):
        """saved: it became the report; conflict: stored only as a version, because another user had saved in between."""

        SAVED = "saved"
        CONFLICT = "conflict"

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
