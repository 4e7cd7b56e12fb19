from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Short jobs beside runs: dry runs, evaluations, conversations, matches, preparation of base models."""

    name = "webapp.jobs"
