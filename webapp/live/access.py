"""Access of websockets: they are accepted only from pages of this server, and closed when their user loses access.

Browsers send cookies with every websocket, regardless of the page that opens it, so the page's origin is compared with the
requested scheme, host and port. Another service on the same host has another origin. TROUPE_TRUSTED_ORIGINS are accepted too.

A notice on the channel of changes says that a person's rights have changed (membership, login, account, share link); then, and every
LOOK_AGAIN seconds anyway, each server process asks the database which of its sockets may stay, in a few queries for all of them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.signals import user_logged_out
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.http import is_same_domain

from webapp.accounts.models import Membership, User
from webapp.common.run_changes import ACCESS, publish_change
from webapp.live.feeds import feeds
from webapp.runs.selectors import runs_visible
from webapp.shares.access import visitor_find
from webapp.shares.models import ShareLink

PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int]
"""Scheme, host, port."""


class SameOrigin:
    """An ASGI wrapper that compares the origin; other origins get 403 before the handshake."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._denier = WebsocketDenier()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """Accept a connection of an allowed origin; reject others."""
        application = self._application if is_welcome(scope) else self._denier
        return await application(scope, receive, send)


def headers_of(scope: Mapping[str, Any]) -> dict[bytes, str]:
    """Return the headers of a request by their names in lower case."""
    return {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}


def is_welcome(scope: Mapping[str, Any]) -> bool:
    """Whether the host is one of this server, and the origin is of that host or trusted."""
    headers = headers_of(scope)
    origin, host = origin_of(headers.get(b"origin", "")), headers.get(b"host", "")
    if origin is None or not is_own_host(host):
        return False
    return origin == origin_of(f"{scheme_of(scope, headers)}://{host}") or any(
        _trusted(origin, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS
    )


def is_own_host(host: str) -> bool:
    """Whether the Host header names this server: another name may have been bound to its address (DNS rebinding)."""
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


def scheme_of(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> str:
    """Return the scheme as Django's request.scheme: from the proxy's header if one is configured."""
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure = settings.SECURE_PROXY_SSL_HEADER
        header = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode())
        if header is not None:
            return "https" if header.partition(",")[0].strip() == secure else "http"
    return "https" if scope.get("scheme") in ("wss", "https") else "http"


def origin_of(text: str) -> Origin | None:
    """Return the origin of an Origin header or a URL; None for "null" and invalid ones."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host:
        return None
    return parts.scheme, host, port or PORTS[parts.scheme]


def _trusted(origin: Origin, allowed: str) -> bool:
    """Whether the origin matches https://host, or https://*.host for its subdomains."""
    wanted = origin_of(allowed.replace("://*.", "://", 1))
    if wanted is None or (origin[0], origin[2]) != (wanted[0], wanted[2]):
        return False
    return is_same_domain(origin[1], f".{wanted[1]}") if "://*." in allowed else origin[1] == wanted[1]


logger = logging.getLogger(__name__)

UNAUTHENTICATED = 4401
NOT_FOUND = 4404
LOOK_AGAIN = 4.0
"""Seconds between checks without a notice: access ends within 5 seconds, even if a notice was lost."""
CLOSEST = 0.05
"""Minimum seconds between two checks."""
Close = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class Pass:
    """The credentials of a socket. Sockets of one browser at one run have equal ones."""

    user: int | None
    """None: a visitor with share links."""
    session: str | None
    """Key of the session; None if there is no session to check."""
    run: str | None
    """None: the list of runs, whose content depends on its user."""
    grants: tuple[str, ...] = ()
    """Digests of the visitor's share links."""


class AccessWatch:
    """Watches the access of the sockets of one event loop."""

    def __init__(self) -> None:
        self.looks = 0
        """Number of checks."""
        self._sockets: dict[Close, Pass] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def join(self, close: Close, shown: Pass) -> None:
        """Call `close` with a code as soon as the pass is invalid."""
        self._sockets[close] = shown
        if self._task is None:
            feeds().listener.add(self._heard)
            self._task = asyncio.create_task(self._work(), name="access")

    def leave(self, close: Close) -> None:
        """Remove a closed socket; after the last one, the watch ends."""
        self._sockets.pop(close, None)
        if not self._sockets and self._task:
            self._task.cancel()
            self._task = None
            feeds().listener.remove(self._heard)

    def _heard(self, notice: str) -> None:
        if notice in ("", ACCESS):
            self._woken.set()

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self._look()
            except DatabaseError as error:
                logger.warning("The access check is repeated later: %s", error)
            await asyncio.sleep(CLOSEST)

    async def _look(self) -> None:
        passes = set(self._sockets.values())
        codes = await database_sync_to_async(codes_of, thread_sensitive=False)(passes)
        ended = [(close, codes[shown]) for close, shown in self._sockets.items() if shown in codes]
        self.looks += 1
        for close, _ in ended:
            self._sockets.pop(close)
        await asyncio.gather(*(close(code) for close, code in ended), return_exceptions=True)


def codes_of(passes: Collection[Pass]) -> dict[Pass, int]:
    """Return the close codes of the passes that are no longer valid."""
    users = User.objects.filter(is_active=True).in_bulk({pass_.user for pass_ in passes if pass_.user})
    now = timezone.now()
    rows = Session.objects.filter(
        session_key__in={pass_.session for pass_ in passes if pass_.session}, expire_date__gt=now
    )
    sessions = {row.session_key: row.get_decoded() for row in rows}
    runs: dict[int, set[str]] = {}
    for pk, user in users.items():
        wanted = {pass_.run for pass_ in passes if pass_.user == pk and pass_.run}
        runs[pk] = (
            set(runs_visible(user).filter(pk__in=wanted).values_list("pk", flat=True)) if wanted else set()
        )
    codes: dict[Pass, int] = {}
    for pass_ in passes:
        if pass_.user is None:
            if visitor_find(pass_.grants, "runs:detail", {"run_id": pass_.run}) is None:
                codes[pass_] = NOT_FOUND
        elif pass_.user not in users or not _logged_in(users[pass_.user], pass_.session, sessions):
            codes[pass_] = UNAUTHENTICATED
        elif pass_.run is not None and pass_.run not in runs[pass_.user]:
            codes[pass_] = NOT_FOUND
    return codes


def _logged_in(user: User, key: str | None, sessions: dict[str, dict[str, Any]]) -> bool:
    """Whether the session exists, belongs to this user, and was created with the current password."""
    if key is None:
        return True
    session = sessions.get(key, {})
    digest = str(session.get(HASH_SESSION_KEY, ""))
    return session.get(SESSION_KEY) == str(user.pk) and constant_time_compare(
        digest, user.get_session_auth_hash()
    )


def connect() -> None:
    """Send notices of changed permissions from model signals; once per process."""
    for signal in (post_save, post_delete):
        for sender in (Membership, ShareLink, User):
            signal.connect(_changed, sender=sender, dispatch_uid=f"access {sender.__name__}")
    post_delete.connect(_changed, sender=Session, dispatch_uid="access session")
    user_logged_out.connect(_changed, dispatch_uid="access logout")


def _changed(update_fields: Collection[str] | None = None, **_: Any) -> None:
    if update_fields is None or set(update_fields) - {"last_login", "opened"}:
        transaction.on_commit(lambda: publish_change(ACCESS, 0))


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AccessWatch] = WeakKeyDictionary()


def access_watch() -> AccessWatch:
    """Return the watch of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), AccessWatch())
