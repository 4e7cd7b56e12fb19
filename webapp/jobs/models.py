"""Short jobs: torch work outside of runs."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run, new_run_id


class Job(models.Model):
    """One check, dry run, evaluation, conversation, match, measurement of messages, or preparation of base models."""

    class Kind(models.TextChoices):
        CHECK = "check", "check"
        DRY_RUN = "dry_run", "dry run"
        EVALUATE = "evaluate", "evaluation"
        TALK = "talk", "conversation"
        MATCH = "match", "match"
        PREPARE = "prepare", "model preparation"
        WHAT_IF = "what_if", "what if"
        WORTH = "worth", "worth of messages"

    class State(models.TextChoices):
        """queued -> running -> finished | failed | cancelled."""

        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.CharField(primary_key=True, max_length=12, default=new_run_id, editable=False)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="jobs")
    """The run of the checkpoint; none for a check or dry run."""
    checkpoint = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="jobs")
    """None: the base models."""
    other = models.ForeignKey(Checkpoint, null=True, on_delete=models.SET_NULL, related_name="+")
    """The second checkpoint of a match."""
    config = models.JSONField()
    """The resolved config."""
    parameters = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED, db_index=True)
    progress = models.FloatField(default=0.0)
    """0 to 1."""
    message = models.TextField(blank=True)
    """The current activity, or the reason of a failure."""
    result = models.JSONField(default=dict)
    """Metrics; see workers.jobs."""
    episodes = models.BinaryField(default=bytes)
    """zstd-compressed JSON list of episodes, set at the end."""
    submission_id = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    @property
    def live(self) -> bool:
        """Whether the job has not ended."""
        return self.state in LIVE


LIVE = (Job.State.QUEUED, Job.State.RUNNING)
