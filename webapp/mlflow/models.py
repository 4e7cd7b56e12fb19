"""What MLflow's clients store beyond a run of Troupe: experiments, and the texts of parameters and tags."""

from django.db import models

from webapp.accounts.models import Project
from webapp.runs.models import Run


class MlflowExperiment(models.Model):
    """A named set of runs in a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="mlflow_experiments")
    name = models.CharField(max_length=500)
    tags = models.JSONField(default=dict)
    """Key -> text."""
    archived = models.BooleanField(default=False)
    """Deleted, in the words of MLflow: it can be restored."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_mlflow_experiment_per_name")
        ]


class MlflowRun(models.Model):
    """A run that a client of MLflow reports."""

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="mlflow")
    experiment = models.ForeignKey(MlflowExperiment, on_delete=models.CASCADE, related_name="runs")
    params = models.JSONField(default=dict)
    """Key -> text as logged; the run's config has the values."""
    tags = models.JSONField(default=dict)
    """Key -> text."""
    inputs = models.JSONField(default=list)
    """Data sets, as logged."""
    models_used = models.JSONField(default=list)
    """Logged models that the run reads, as logged."""
    models_made = models.JSONField(default=list)
    """Logged models that the run makes, with a step, as logged."""
    requests = models.JSONField(default=list)
    """Digests of the latest requests with metrics: a client repeats a request whose response it has not received."""


class MlflowModel(models.Model):
    """A logged model. Its files are those of its run below models/ID."""

    id = models.CharField(primary_key=True, max_length=34)
    run = models.ForeignKey(MlflowRun, on_delete=models.CASCADE, related_name="logged_models")
    alone = models.BooleanField(default=False)
    """Whether the client named no run: the run was made for the files of this model."""
    name = models.CharField(max_length=500)
    model_type = models.CharField(max_length=500, blank=True)
    status = models.CharField(max_length=40)
    """As MLflow spells it."""
    params = models.JSONField(default=dict)
    """Key -> text."""
    tags = models.JSONField(default=dict)
    """Key -> text."""
    metrics = models.JSONField(default=list)
    """The latest point of each metric, data set and run, as logged."""
    archived = models.BooleanField(default=False)
    """Deleted, in the words of MLflow. Its files remain those of the run."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
