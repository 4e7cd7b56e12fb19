from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "webapp.live"

    def ready(self) -> None:
        """Connect the signals of changed permissions."""
        from webapp.live.access import connect

        connect()
