from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "webapp.notifications"

    def ready(self) -> None:
        """Connects the receiver of events."""
        from webapp.notifications.delivery import event_deliver
        from webapp.runs.lifecycle import run_event

        run_event.connect(event_deliver, dispatch_uid="notifications")
