"""Size limits of request bodies, by URL; enforced while reading, before Django processes the request."""

import re
from collections.abc import MutableMapping
from typing import Any

from django.conf import settings

from webapp.artifacts.contents import LARGEST_FILE
from webapp.ingest.bodies import MAX_BODY
from workers.http import App, BodyLimit, Receive, Send

CONTENTS = re.compile(r"/api/v1/projects/[^/]+/artifact-contents/[^/]+/")
EVENTS = re.compile(r"/api/v1/runs/[^/]+/events/")


class BodyLimits:
    """An ASGI wrapper with limits by path: batches of events and contents of artifacts are larger than forms and API calls."""

    def __init__(self, app: App) -> None:
        self._events = BodyLimit(app, MAX_BODY, _refusal)
        self._contents = BodyLimit(app, LARGEST_FILE, _refusal)
        self._others = BodyLimit(app, settings.DATA_UPLOAD_MAX_MEMORY_SIZE, _refusal)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on with the limit of its path."""
        path = scope.get("path", "")
        limited = self._others
        if EVENTS.fullmatch(path):
            limited = self._events
        elif CONTENTS.fullmatch(path) and scope.get("method") == "PUT":
            limited = self._contents
        await limited(scope, receive, send)


def _refusal(reason: str) -> dict[str, str]:
    return {"code": "too_large", "detail": reason}
