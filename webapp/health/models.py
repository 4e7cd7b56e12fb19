"""Findings, and where the messages about them go."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.runs.models import Run


class Finding(models.Model):
    """Something that a rule saw in a run. A rule has one per key, which is opened again where it comes back."""

    class State(models.TextChoices):
        """open: it is so; resolved: it was; dismissed: somebody knows, and wants to hear no more of it."""

        OPEN = "open"
        RESOLVED = "resolved"
        DISMISSED = "dismissed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="findings")
    rule = models.CharField(max_length=40)
    key = models.CharField(max_length=200)
    """The metric, or the part of the run, that it is about."""
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    severity = models.CharField(max_length=4)
    """bad or warn."""
    title = models.CharField(max_length=400)
    first_step = models.BigIntegerField()
    last_step = models.BigIntegerField()
    calm_looks = models.PositiveSmallIntegerField(default=0)
    """Looks in a row, each with new metrics, at which it was well below its bound."""
    evidence = models.JSONField(default=dict)
    """{"figures": [[name, number or text], ...], "series": [metric, ...]}."""
    action = models.CharField(max_length=8, default="none")
    """What its rule asked for when it was new."""
    done = models.TextField(blank=True)
    """What came of that, in words."""
    fork = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="findings_answered")
    """The run that was forked for it."""
    dismissed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "rule", "key"], name="one_finding_per_rule_and_key")
        ]


class Checked(models.Model):
    """How far the rules have looked at a run."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="checked")
    cursor = models.BigIntegerField(default=0)
    """Run.event_count when they looked."""
    step = models.BigIntegerField(default=-1)
    """Last step of any metric that they saw; -1 before any."""


class Channel(models.Model):
    """Where a project's messages go."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="channels")
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=20)
    """What it is, e.g. json, mailto, slack: the one part of the address that is shown."""
    sealed = models.TextField()
    """An Apprise URL, encrypted (webapp/common/sealing.py). It holds secrets: it is used, and never shown or logged."""
    said = models.CharField(max_length=600, blank=True)
    """How the last message went."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_channel_per_name")]
