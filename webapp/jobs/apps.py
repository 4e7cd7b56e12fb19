from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Short jobs independent of runs: dry runs, evaluations, conversations, matches, preparation of base models."""

    name = "webapp.jobs"
