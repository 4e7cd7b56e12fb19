"""Artifacts: named files, data sets, tables and models of a project, in versions."""

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run


class Artifact(models.Model):
    """A name in a project. Its versions have the contents."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=80)
    type = models.CharField(max_length=40)
    """A word such as dataset, table, file or model."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_artifact_per_name")]
        ordering = ["name"]


class ArtifactVersion(models.Model):
    """Contents of an artifact: files, or a policy of a checkpoint. Equal contents are one version."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="versions")
    number = models.IntegerField()
    """From 0."""
    digest = models.CharField(max_length=64)
    """SHA-256 of the paths and hashes of all files, or of the checkpoint's identity."""
    size = models.BigIntegerField()
    """Bytes."""
    metadata = models.JSONField(default=dict)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="artifacts_made")
    """The run that made it."""
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    checkpoint = models.ForeignKey(
        Checkpoint, null=True, on_delete=models.RESTRICT, related_name="artifact_versions"
    )
    policy = models.CharField(max_length=80, blank=True)
    """Policy of the checkpoint."""
    removed = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    newest: int | None
    """Number of the newest version of the artifact, of rows of services.versions_visible."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact", "number"], name="one_artifact_version_per_number"),
            models.UniqueConstraint(fields=["artifact", "digest"], name="one_artifact_version_per_content"),
        ]
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"{self.artifact.name}:v{self.number}"

    @property
    def ref(self) -> str:
        """The version in addresses: v3."""
        return f"v{self.number}"


class ArtifactFile(models.Model):
    """A file of a version. Equal contents of one project are stored once."""

    version = models.ForeignKey(ArtifactVersion, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=400)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, db_index=True)

    class Meta:
        ordering = ["path"]


class ArtifactAlias(models.Model):
    """A movable name of a version, such as production. "latest" is the newest version and is not stored."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=40)
    version = models.ForeignKey(ArtifactVersion, on_delete=models.CASCADE, related_name="aliases")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact", "name"], name="one_artifact_alias_per_name")
        ]
        ordering = ["name"]


class ArtifactUse(models.Model):
    """A run that used a version."""

    version = models.ForeignKey(ArtifactVersion, on_delete=models.RESTRICT, related_name="uses")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts_used")
    wanted = models.CharField(max_length=200)
    """The reference as the run named it, e.g. planner:production."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "run"], name="one_artifact_use_per_run")]
        ordering = ["pk"]
