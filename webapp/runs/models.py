"""Runs, their attempts and their log."""

import secrets

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_run_id() -> str:
    """Eight characters that are hard to misread (39 bits)."""
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
    """Who trains it: workers that we launch, or somebody's own program through the client."""

    TROUPE = "troupe"
    CLIENT = "client"


ACTIVE_STATES = (RunState.QUEUED, RunState.STARTING, RunState.RUNNING, RunState.STOPPING)
ENDED_STATES = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED)


class RunManager(models.Manager["Run"]):
    """Runs without their facts, which few pages need and which may be large: webapp/runs/facts.py reads them."""

    def get_queryset(self) -> models.QuerySet["Run"]:
        """See Django."""
        return super().get_queryset().defer("facts")


class Run(models.Model):
    """One experiment under one config."""

    id = models.CharField(primary_key=True, max_length=12, default=new_run_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    name = models.CharField(max_length=120)
    preset = models.CharField(max_length=80, blank=True)
    tags = models.JSONField(default=list)
    source = models.CharField(max_length=8, choices=RunSource.choices, default=RunSource.TROUPE)
    priority = models.IntegerField(default=0)
    """Higher ones are admitted first."""
    family = models.CharField(max_length=64, blank=True, db_index=True)
    """Digest of the config without its seed, name, description and tags: runs that differ by seed alone share it."""
    sweep = models.ForeignKey("experiments.Sweep", null=True, on_delete=models.SET_NULL, related_name="runs")
    parent = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="forks")
    """The run it was forked from."""
    parent_checkpoint = models.CharField(max_length=400, blank=True)
    """Path of the checkpoint it was forked at, relative to the parent's run folder."""
    edits = models.JSONField(default=dict, blank=True)
    """Fields of the config that were edited since the last attempt, which the next one takes over."""
    resume_from = models.CharField(max_length=400, blank=True)
    """Path of the checkpoint that a person chose for the next attempt; empty for the newest."""
    archived = models.BooleanField(default=False, db_index=True)
    """Left out of tables unless they are asked for."""
    finding_counts = models.JSONField(default=dict)
    """Open health findings by level, e.g. {"bad": 1, "warn": 2}."""
    config = models.JSONField()
    """The resolved config, whole."""
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED, db_index=True)
    reason = models.TextField(blank=True)
    """Why it waits, failed or stopped, in words for its owner."""
    stop_requested = models.CharField(max_length=6, blank=True)
    """stop or pause while one is asked for."""
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    end_requested_at = models.DateTimeField(null=True, blank=True)
    """When a person asked that a run which is stopping ends at once, its iteration incomplete."""
    losses_from = models.IntegerField(default=0)
    """Attempts up to this number do not count for run.max_attempts: a person has resumed the run since."""
    iteration = models.IntegerField(default=0)
    """Iterations completed."""
    iterations = models.IntegerField()
    """Iterations wanted."""
    headline = models.JSONField(default=dict)
    """Latest values of the few metrics that tables show, by key."""
    facts = models.JSONField(default=dict)
    """Said by the driver at start: packages, base models."""
    event_count = models.BigIntegerField(default=0)
    """Events stored so far: the cursor of the run's live feed."""
    values_dropped = models.BigIntegerField(default=0)
    """Values of metrics that were not stored because the run had too many names."""
    events_held = models.BooleanField(default=False)
    """Whether its latest events wait on the trainer's disk, since the project's storage quota is used up."""
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RunManager()

    class Meta:
        indexes = [models.Index(fields=["project", "-created_at"])]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class Attempt(models.Model):
    """One launch of a run. Numbers count from 1; the highest is the one that may change the run's state."""

    class State(models.TextChoices):
        """submitting: no answer of the backend yet; ended_as tells how it ended."""

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
    cluster = models.CharField(max_length=32, blank=True)
    """Which start of the bundled Ray it was submitted to; empty for any other cluster."""
    resumed_from = models.CharField(max_length=400, blank=True)
    """Checkpoint path relative to the run folder; empty for a fresh start."""
    exact = models.BooleanField(default=False)
    """Whether a person chose `resumed_from`: then no other checkpoint takes its place where it is damaged."""
    changes = models.JSONField(default=dict)
    """Fields of the config that were edited before this attempt: dotted path -> value."""
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    """When the server last received anything from it."""
    unreachable_since = models.DateTimeField(null=True, blank=True)
    """Since when the backend has not answered for it."""
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="one_attempt_per_number")]
        ordering = ["number"]


class RunNote(models.Model):
    """What somebody wrote at a moment of a run; marked on its curves where it has a step."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="run_notes")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    step = models.BigIntegerField(null=True)
    text = models.TextField(max_length=4000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]


class SavedView(models.Model):
    """A way to look at the runs table, kept under a name: a project's, shared by its members, or somebody's own."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    """Who made it; who sees it where it has no project."""
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=80)
    query = models.JSONField(default=dict)
    """Words of the table's address -> text: filter, sort, columns, group and the rest of RunFilters."""
    default = models.BooleanField(default=False)
    """Opened where the address asks for nothing; at most one of a project, and one of a person."""
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

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines")
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count when it was stored."""
    time = models.DateTimeField()
    level = models.CharField(max_length=8)
    source = models.CharField(max_length=80)
    message = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["run", "-id"])]


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
    """Model FLOPs that were needed."""
    peak = models.FloatField(null=True)
    """FLOP/s of the worker's device at its peak."""

    class Meta:
        indexes = [models.Index(fields=["run", "start"])]
