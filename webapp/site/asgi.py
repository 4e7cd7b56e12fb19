"""The ASGI application: HTTP by Django, websockets by Channels."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402 - Django must be set up first
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from webapp.live.origins import SameOrigin  # noqa: E402
from webapp.live.routing import websocket_urlpatterns  # noqa: E402
from webapp.site.body_limits import BodyLimits  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": BodyLimits(http),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
