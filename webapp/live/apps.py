from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "webapp.live"

    def ready(self) -> None:
        """Give notice of changed rights from now on."""
        from webapp.live.access import connect

        connect()
