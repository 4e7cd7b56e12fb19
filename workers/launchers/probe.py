"""Checks whether an HTTP server is healthy: the health check of containers, without spaces that engines could split at.

    python -m workers.launchers.probe http://127.0.0.1:8000/readyz
    python -m workers.launchers.probe http://127.0.0.1:8265/api/jobs/ --token RAY_AUTH_TOKEN

The exit status is 0 if a GET is answered with 200, else 1. --token names the environment variable that holds the bearer token.
"""

import argparse
import os
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

TIMEOUT = 4.0
"""Seconds for an answer; the containers' checks end after 5."""


def http_answers(url: str, token: str = "", timeout: float = TIMEOUT) -> bool:
    """Whether a GET is answered with 200, each step within `timeout` seconds. Does not use the environment's proxies.

    `up` probes 20 times a second: an httpx client would create a TLS context each time (13 ms).
    """
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request(
            "GET", parts.path or "/", headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    """Probe the address and return the exit status."""
    parser = argparse.ArgumentParser("workers.launchers.probe")
    parser.add_argument("url")
    parser.add_argument("--token", metavar="VARIABLE", default="", help="holds the bearer token")
    options = parser.parse_args(arguments)
    return 0 if http_answers(options.url, os.environ.get(options.token, "")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
