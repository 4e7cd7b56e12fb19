"""The web server process: uvicorn on a listening socket that `up` holds, or on its own address.

python -m webapp.stack.serve DESCRIPTOR
python -m webapp.stack.serve HOST:PORT
"""

import importlib
import os
import resource
import socket
import sys

import django
import uvicorn
from django.conf import settings

from webapp.config import environment as env
from webapp.stack.connections import HttpProtocol
from webapp.stack.home import wait_until_prepared

PROXIES = "127.0.0.1,::1"
"""Addresses of trusted proxies unless TROUPE_PROXY_ADDRESSES is set."""
CONNECTIONS = "40"
"""Maximum number of database connections of this process unless TROUPE_DATABASE_CONNECTIONS is set. Each request has a thread;
without a limit, 100 requests at the same time would use all connections of a Postgres with default settings.
"""

DESCRIPTORS = 16_384
"""Open files of this process: connections that wait, bodies, websockets."""


def server_config() -> uvicorn.Config:
    """Return the settings. Requests are not logged: a login link is a URL. X-Forwarded-* headers are read only with
    TROUPE_BEHIND_PROXY=1: without a proxy that replaces them, any client may send them.
    """
    return uvicorn.Config(
        "webapp.site.asgi:application",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        http=HttpProtocol,
        proxy_headers=env.behind_proxy(),
        forwarded_allow_ips=env.text("TROUPE_PROXY_ADDRESSES", PROXIES),
        ws="webapp.live.frames:FrameProtocol",
        ws_per_message_deflate=False,  # costs more time than it saves
        ws_max_size=64 * 1024,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=75,  # above the 5 s of httpx: its idle connections must not be closed while it sends the next request
        backlog=512,
    )


def import_modules() -> None:
    """Import what the application imports. It is built later: its middleware lists the static files when it is built."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")
    os.environ.setdefault(env.CONNECTIONS, CONNECTIONS)
    django.setup()
    for name in (settings.ROOT_URLCONF, "webapp.live.consumers", "webapp.site.handler", "channels.auth"):
        importlib.import_module(name)


def permit_descriptors() -> None:
    """Raise the limit of open files towards DESCRIPTORS, as far as the system permits: each connection needs one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if most == resource.RLIM_INFINITY else min(DESCRIPTORS, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def main(target: str) -> None:
    """Serve until SIGTERM."""
    permit_descriptors()
    config = server_config()
    if target.isdigit():
        listener = socket.socket(fileno=int(target))
    else:
        host, _, port = target.rpartition(":")
        config.host, config.port = host.strip("[]"), int(port)
        listener = config.bind_socket()
    import_modules()
    wait_until_prepared()
    config.load()
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
