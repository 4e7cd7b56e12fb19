"""Findings of health rules."""

from django.conf import settings
from django.db import models

from webapp.runs.models import Run


class Finding(models.Model):
    """A problem that a rule detected in a run. A rule has one finding per key, which is reopened if it recurs."""

    class State(models.TextChoices):
        """open: the problem exists; resolved: it existed; dismissed: a user does not want further messages about it."""

        OPEN = "open"
        RESOLVED = "resolved"
        DISMISSED = "dismissed"

    class Severity(models.TextChoices):
        """critical: the run learns nothing, or will end; warning: a metric is out of its usual range."""

        CRITICAL = "critical"
        WARNING = "warning"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="findings")
    rule = models.CharField(max_length=40)
    key = models.CharField(max_length=200)
    """The affected metric, or part of the run."""
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    severity = models.CharField(max_length=8, choices=Severity.choices)
    title = models.CharField(max_length=400)
    first_step = models.BigIntegerField()
    last_step = models.BigIntegerField()
    calm_looks = models.PositiveSmallIntegerField(default=0)
    """Consecutive steps with a value well below the bound."""
    opened_step = models.BigIntegerField(null=True)
    """Step at which it was opened."""
    critical_first = models.BigIntegerField(null=True)
    critical_last = models.BigIntegerField(null=True)
    """First and last step at which it was critical."""
    lasting = models.CharField(max_length=200, blank=True)
    """The harm for which it stays open, although its value is below the bound."""
    evidence = models.JSONField(default=dict)
    """{"figures": [[name, number or text], ...], "series": [metric, ...]}."""
    action = models.CharField(max_length=8, default="none")
    """The action of its rule when it was new."""
    done = models.TextField(blank=True)
    """Result of that action as text."""
    fork = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="findings_answered")
    """The fork created for it."""
    dismissed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "rule", "key"], name="one_finding_per_rule_and_key")
        ]


class Checked(models.Model):
    """Progress of the rules for a run."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="checked")
    cursor = models.BigIntegerField(default=0)
    """Run.event_count at the last check."""
    step = models.BigIntegerField(default=-1)
    """Last step of any metric at the last check; -1 before any."""
    measures = models.JSONField(default=dict)
    """Rule -> its largest measurement at the last check, and in `nearest` the one that came nearest to its bound."""
