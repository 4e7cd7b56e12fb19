from django.apps import AppConfig


class MetricsConfig(AppConfig):
    name = "webapp.metrics"

    def ready(self) -> None:
        """Connects the receiver of events."""
        from webapp.metrics.services import ended_compact
        from webapp.runs.lifecycle import run_event

        run_event.connect(ended_compact, dispatch_uid="metrics")
