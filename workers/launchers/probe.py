"""Checks whether an HTTP server is healthy: the health check of containers, without spaces that engines could split at.

    python -m workers.launchers.probe http://127.0.0.1:8000/readyz
    python -m workers.launchers.probe http://127.0.0.1:8265/api/jobs/ --token RAY_AUTH_TOKEN

The exit status is 0 if a GET is answered with 200, else 1. --token names the environment variable that holds the bearer token.
"""

import argparse
import os
import sys

import httpx

TIMEOUT = 4.0
"""Seconds for an answer; the containers' checks end after 5."""


def http_answers(url: str, token: str = "", timeout: float = TIMEOUT) -> bool:
    """Whether a GET is answered with 200 within `timeout` seconds. Does not use the environment's proxies."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        return httpx.get(url, headers=headers, timeout=timeout, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def main(arguments: list[str]) -> int:
    """Probe the address and return the exit status."""
    parser = argparse.ArgumentParser("workers.launchers.probe")
    parser.add_argument("url")
    parser.add_argument("--token", metavar="VARIABLE", default="", help="holds the bearer token")
    options = parser.parse_args(arguments)
    return 0 if http_answers(options.url, os.environ.get(options.token, "")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
