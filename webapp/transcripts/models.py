"""Episodes: a row of searchable facts, a compressed body, annotations by later updates."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from webapp.accounts.models import Project, User
from webapp.common.run_rows import RunRows
from webapp.runs.models import Run


class Episode(models.Model):
    """Facts of one episode."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="episodes", db_index=False)
    """Without an index of its own: the planner would sort a run's episodes instead of reading an index that is sorted."""
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    """Run.event_count at the time of storage."""
    name = models.CharField(max_length=80)
    """The trainer's id: "<attempt>-<iteration>-<kind>-<index>"."""
    iteration = models.IntegerField()
    kind = models.CharField(max_length=12)
    """train, eval or eval_sampled."""
    probe = models.BooleanField(default=False)
    task = models.CharField(max_length=200)
    title = models.CharField(max_length=200)
    outcome = models.CharField(max_length=200)
    success = models.BooleanField(null=True)
    """None if the environment has no success."""
    failed = models.BooleanField(default=False)
    error = models.TextField(blank=True)
    truncated = models.BooleanField(default=False)
    episode_return = models.FloatField()
    rewards = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    turn_count = models.IntegerField()
    tokens = models.IntegerField()
    started = models.FloatField()
    ended = models.FloatField()
    environment = models.CharField(max_length=80, blank=True)
    """Type of the environment."""
    roles = models.JSONField(default=dict)
    """Figures by role (webapp.transcripts.services)."""
    groups = models.JSONField(default=list)
    """Figures of each turn and its candidates (webapp.transcripts.services)."""
    staleness = models.IntegerField(null=True)
    """Publications between the oldest generated token and the update; None if no update is known."""
    words = SearchVectorField(null=True)
    """The full-text search vector (webapp.transcripts.words)."""

    objects = RunRows["Episode"].as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_episode_per_name")]
        indexes = [
            models.Index(fields=["run", "-id"]),
            models.Index(fields=["run", "kind", "-id"]),
            models.Index(fields=["run", "task"]),
            models.Index(fields=["run", "iteration", "-id"], name="episodes_of_an_iteration"),
            models.Index(fields=["run", "cursor"], name="episodes_by_cursor"),
            GinIndex(fields=["words"], name="episode_words"),
        ]


class EpisodeBody(models.Model):
    """Prompts and responses: zstd-compressed JSON {"turns": [...], "final_board": ...} as in workers.telemetry.events, in
    pieces (webapp.transcripts.bodies).
    """

    episode = models.OneToOneField(Episode, on_delete=models.CASCADE, primary_key=True, related_name="body")
    data = models.BinaryField()
    size = models.IntegerField()
    """Bytes stored."""
    frames = models.JSONField(default=list)
    """[turns, bytes] of each piece of `data`, in order; empty for a single piece."""


class EpisodeAnnotation(models.Model):
    """Results of the update; refers to its episode by name, which may arrive later."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="episode_annotations")
    episode_name = models.CharField(max_length=80)
    attempt = models.IntegerField()
    cursor = models.BigIntegerField()
    data = models.BinaryField()
    """zstd-compressed JSON {"turns": [...], "stages": {...}}, in pieces (webapp.transcripts.bodies)."""
    frames = models.JSONField(default=list)
    """[first turn, last turn, bytes] of each piece of `data`, in order; empty for a single piece."""

    class Meta:
        indexes = [
            models.Index(fields=["run", "episode_name"]),
            models.Index(fields=["run", "cursor"], name="annotations_by_cursor"),
        ]


class EpisodeNote(models.Model):
    """A user's note on an episode, or on one turn in it."""

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="notes")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    turn = models.IntegerField(null=True)
    """Number of the turn, from 1; None: the episode as a whole."""
    label = models.CharField(max_length=40, blank=True)
    """A word for searching; label or text is required."""
    text = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["label", "episode"])]


class SavedQuery(models.Model):
    """A named query of transcripts: of a project, shared by its members, or of one user."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_queries")
    """Its creator; the only reader if it has no project."""
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="saved_queries")
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=2000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_query_per_name"),
            models.UniqueConstraint(
                fields=["owner", "name"], condition=models.Q(project=None), name="one_own_query_per_name"
            ),
        ]
        ordering = ["name", "pk"]
