from django.apps import AppConfig


class HealthConfig(AppConfig):
    """Health rules and their findings."""

    name = "webapp.health"

    def ready(self) -> None:
        """Connects the receiver of delivered messages."""
        from webapp.health.services import delivery_note
        from webapp.notifications.delivery import delivery_ended

        delivery_ended.connect(delivery_note, dispatch_uid="health")
