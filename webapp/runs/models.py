"""Runs, their attempts and their log."""

import secrets
from typing import Any

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.common.run_rows import RunRows
from webapp.common.tones import RUN_TONES

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_run_id() -> str:
    """Return eight characters that are hard to misread (39 bits)."""
    return "".join(secrets.choice(ALPHABET) for _ in range(8))


class RunState(models.TextChoices):
    """draft -> queued -> starting -> running -> (stopping ->) finished | stopped | failed, and paused."""

    DRAFT = "draft"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


class RunSource(models.TextChoices):
    """Who trains it: workers launched by the server, or a custom program through the client."""

    TROUPE = "troupe"
    CLIENT = "client"


ACTIVE_STATES = (RunState.QUEUED, RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
ENDED_STATES = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED)
INACTIVE_STATES = (*ENDED_STATES, RunState.PAUSED)
"""States in which a run has no process and changes only if it is resumed."""


class RunManager(models.Manager["Run"]):
    """Defers the facts, which few pages need and which may be large: webapp/runs/selectors.py reads them."""

    def get_queryset(self) -> models.QuerySet["Run"]:
        """Return runs without their facts."""
        return super().get_queryset().defer("facts")


class Run(models.Model):
    """One experiment with one config."""

    id = models.CharField(primary_key=True, max_length=12, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    name = models.CharField(max_length=120)
    preset = models.CharField(max_length=80, blank=True)
    tags = models.JSONField(default=list)
    source = models.CharField(max_length=8, choices=RunSource.choices, default=RunSource.TROUPE)
    priority = models.IntegerField(default=0)
    """Runs with a higher priority are admitted first."""
    family = models.CharField(max_length=64, blank=True, db_index=True)
    """Digest of the config without its seed, name, description and tags: equal for runs that differ only by seed."""
    sweep = models.ForeignKey("experiments.Sweep", null=True, on_delete=models.SET_NULL, related_name="runs")
    parent = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="forks")
    """The parent of a fork."""
    parent_checkpoint = models.CharField(max_length=400, blank=True)
    """Path of the forked checkpoint, relative to the parent's run folder."""
    parent_iteration = models.IntegerField(default=0)
    """Iteration of the forked checkpoint; 0 for a run that is not a fork."""
    edits = models.JSONField(default=dict, blank=True)
    """Config fields edited since the last attempt, applied by the next one."""
    resume_from = models.CharField(max_length=400, blank=True)
    """Path of the checkpoint that a user selected for the next attempt; empty for the newest."""
    archived = models.BooleanField(default=False, db_index=True)
    """Hidden in tables by default."""
    finding_counts = models.JSONField(default=dict)
    """Open health findings by level, e.g. {"critical": 1, "warning": 2}."""
    config = models.JSONField()
    """The complete resolved config."""
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED, db_index=True)
    reason = models.TextField(blank=True)
    """Why it waits, failed or stopped, as one sentence."""
    remedy = models.TextField(blank=True, default="")
    """What its owner can do about the reason, as one sentence; empty if there is nothing to do."""
    stop_requested = models.CharField(max_length=6, blank=True)
    """stop or pause while one is requested."""
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    end_requested_at = models.DateTimeField(null=True, blank=True)
    """Time at which a user requested an immediate end of a stopping run, without completing its iteration."""
    losses_from = models.IntegerField(default=0)
    """Attempts up to this number do not count for run.max_attempts: a user has resumed the run since."""
    iteration = models.BigIntegerField(default=0)
    """Iterations completed."""
    iterations = models.BigIntegerField()
    """Iterations wanted."""
    tone = models.PositiveSmallIntegerField(default=0)
    """Its colour on every page, 1 to RUN_TONES: the runs of a project take turns, in the order in which they are created."""
    headline = models.JSONField(default=dict)
    """Latest values of the few metrics shown in tables, by key."""
    headline_keys = models.JSONField(default=list, blank=True)
    """Metrics that its overview shows first, as chosen by its program or a user; empty: by their names."""
    facts = models.JSONField(default=dict)
    """Reported by the driver at start: packages, base models."""
    event_count = models.BigIntegerField(default=0)
    """Number of stored events: the cursor of the run's live feed."""
    series_count = models.IntegerField(default=0)
    """Number of metrics."""
    episode_counts = models.JSONField(default=dict)
    """Number of stored episodes by kind."""
    media_count = models.IntegerField(default=0)
    """Number of stored histograms, images, tables and texts."""
    values_dropped = models.BigIntegerField(default=0)
    """Number of values not stored because the run had too many metrics."""
    events_held = models.BooleanField(default=False)
    """Whether its latest events wait on the trainer's disk, because the project's storage quota is reached."""
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RunManager()

    class Meta:
        indexes = [
            models.Index(fields=["project", "-created_at"]),
            # Counts the rows of the runs table without reading them.
            models.Index(
                fields=["project", "-created_at", "-id"],
                name="runs_in_the_table",
                condition=models.Q(archived=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Give a new run its colour."""
        if self._state.adding and not self.tone:
            self.tone = Run.objects.filter(project_id=self.project_id).count() % RUN_TONES + 1
        super().save(*args, **kwargs)

    @property
    def is_custom(self) -> bool:
        """Whether a program with its own training loop reports it; its config has a section `client`, and the names of its metrics
        mean what the program decides.
        """
        return self.source == RunSource.CLIENT


class Attempt(models.Model):
    """One launch of a run. Numbers start at 1; only the highest attempt may change the run's state."""

    class State(models.TextChoices):
        """submitting: the backend has not confirmed yet; ended_as is the result of an ended one."""

        SUBMITTING = "submitting"
        LIVE = "live"
        ENDED = "ended"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.SUBMITTING)
    ended_as = models.CharField(max_length=10, blank=True)
    """finished, stopped, paused, failed, lost."""
    reason = models.TextField(blank=True)
    submission_id = models.CharField(max_length=80, unique=True)
    shared_job = models.CharField(max_length=80, blank=True, db_index=True)
    """Submission id of the job whose process also trains other runs; empty for a job of its own."""
    shared_by = models.PositiveSmallIntegerField(default=1)
    """Number of runs in that job when it was submitted."""
    cluster = models.CharField(max_length=32, blank=True)
    """The start of the bundled Ray it was submitted to; empty for any other cluster."""
    resumed_from = models.CharField(max_length=400, blank=True)
    """Checkpoint path relative to the run folder; empty for a fresh start."""
    resumed_iteration = models.BigIntegerField(default=0)
    """Iteration of `resumed_from`, or the steps that a custom program had completed; 0 for a fresh start."""
    exact = models.BooleanField(default=False)
    """Whether a user selected `resumed_from`: then a damaged one is not replaced by another checkpoint."""
    changes = models.JSONField(default=dict)
    """Config fields edited before this attempt: dotted path -> value."""
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    """Time of the last message from it."""
    unreachable_since = models.DateTimeField(null=True, blank=True)
    """Time since when the backend has not responded for it."""
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_attempt_per_number")]
        ordering = ["number"]

    @property
    def job_id(self) -> str:
        """Submission id of its job."""
        return self.shared_job or self.submission_id


class RunNote(models.Model):
    """A user's note on a step of a run, or on the whole run; marked on its curves if it has a step."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="run_notes")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    step = models.BigIntegerField(null=True)
    text = models.TextField(max_length=4000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]


class SavedView(models.Model):
    """A named configuration of the runs table: of a project, shared by its members, or of one user."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    """Its creator; the only reader if it has no project."""
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=80)
    query = models.JSONField(default=dict)
    """Query parameters of the table -> text: filter, sort, columns, group and the rest of RunFilters."""
    default = models.BooleanField(default=False)
    """Opened for a URL without parameters; at most one per project, and one per user."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_view_per_name"),
            models.UniqueConstraint(
                fields=["owner", "name"], condition=models.Q(project=None), name="one_own_view_per_name"
            ),
        ]
        ordering = ["name", "pk"]


class LogLine(models.Model):
    """A line of the run's log."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines", db_index=False)
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count at the time of storage."""
    time = models.DateTimeField()
    level = models.CharField(max_length=8)
    source = models.CharField(max_length=80)
    message = models.TextField()

    objects = RunRows["LogLine"].as_manager()

    class Meta:
        indexes = [models.Index(fields=["run", "-id"]), models.Index(fields=["run", "source", "id"])]


class Phase(models.Model):
    """A span of one worker's time."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="phases")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    worker = models.CharField(max_length=80)
    phase = models.CharField(max_length=12)
    policy = models.CharField(max_length=40, blank=True)
    iteration = models.IntegerField()
    start = models.FloatField()
    end = models.FloatField()
    flops = models.FloatField(null=True)
    """Required model FLOPs."""
    peak = models.FloatField(null=True)
    """Peak FLOP/s of the worker's device."""

    class Meta:
        indexes = [models.Index(fields=["run", "start"])]
