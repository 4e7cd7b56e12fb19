"""The ASGI application: HTTP by Django, /mcp by the MCP server, websockets by Channels."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
django.setup(set_prefix=False)

from channels.auth import AuthMiddlewareStack  # noqa: E402 - Django must be set up first
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from webapp.live.access import SameOrigin  # noqa: E402
from webapp.live.consumers import websocket_urlpatterns  # noqa: E402
from webapp.site.assistants import Assistants  # noqa: E402
from webapp.site.bodies import Bodies  # noqa: E402
from webapp.site.handler import ThreadHandler  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": Bodies(Assistants(ThreadHandler())),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
