"""Share links: each gives read access to one object."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project


class ShareLink(models.Model):
    """A read-only link: its secret is shown once and stored hashed (SHA-256 of 32 random bytes)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="share_links")
    kind = models.CharField(max_length=20)
    """One of webapp.shares.access.KINDS."""
    target = models.CharField(max_length=2000)
    """The shared object: a run's id, a report's id, the query of a comparison's URL."""
    title = models.CharField(max_length=200, blank=True)
    """The title in the project's list of links; not shown elsewhere."""
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="share_links"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    """When the link was last followed."""
    opened = models.IntegerField(default=0)
    """How many times it was followed."""

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.target[:40]}"
