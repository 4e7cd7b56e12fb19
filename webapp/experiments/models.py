"""Templates and sweeps."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.runs.configs import settings_count


class Template(models.Model):
    """A named preset with changed fields."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="templates")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True, max_length=4000)
    preset = models.CharField(max_length=80)
    overrides = models.JSONField(default=dict)
    """Dotted field path -> value."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_template_per_name")]
        ordering = ["name"]

    @property
    def changes(self) -> int:
        """The number of changed settings: name, description and tags of a run are not counted."""
        return settings_count(self.overrides)


class Sweep(models.Model):
    """Runs that were launched together: one for each combination of some fields' values."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="sweeps")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    name = models.CharField(max_length=120)
    preset = models.CharField(max_length=80)
    overrides = models.JSONField(default=dict)
    """Shared overrides of all runs: dotted field path -> value."""
    axes = models.JSONField(default=dict)
    """Varied fields: dotted field path -> list of values."""
    method = models.CharField(max_length=8, default="grid")
    """grid: every combination; list: the n-th values of all axes together. Both are repeated for every seed."""
    separate_processes = models.BooleanField(default=False)
    """Whether every run has a process of its own; otherwise runs that differ in their seed only share one if they can."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]
