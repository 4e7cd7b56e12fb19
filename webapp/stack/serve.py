"""The web server process: uvicorn on a listening socket that `up` holds.

python -m webapp.stack.serve DESCRIPTOR
"""

import socket
import sys

import uvicorn


def main(descriptor: int) -> None:
    """Serve until SIGTERM. Requests are not logged: a login link is an address."""
    listener = socket.socket(fileno=descriptor)
    config = uvicorn.Config(
        "webapp.config.asgi:application",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        ws_per_message_deflate=False,  # costs more than the wire it saves
        ws_max_size=64 * 1024,
        timeout_graceful_shutdown=3,
        backlog=512,
    )
    config.load()
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]))
