"""Ray's command line with forked workers: `python -m workers.node start --head --block ...`, as `ray start` otherwise.

The head starts no server for Ray's client (`ray://` addresses), which nothing of Troupe uses and which takes a second of CPU time.
"""

import sys
from pathlib import Path

from workers.node.forking import forked_workers


def main() -> None:
    """Start a node in the foreground. Its workers end with it."""
    from ray.scripts import scripts

    # `ray start` has no option for it: the server is left out where the client's packages are missing.
    scripts.get_ray_client_dependency_error = no_client  # type: ignore[attr-defined]
    # A node that is ended with its process group removes nothing. The owner of Ray's folder removes the socket with it.
    places = [Path(word.partition("=")[2]) for word in sys.argv if word.startswith("--temp-dir=")]
    with forked_workers(folder=next(iter(places), None)):
        scripts.main()  # type: ignore[no-untyped-call]


def no_client() -> ImportError:
    """Return the reason why the head starts no server for Ray's client."""
    return ImportError("not used")


if __name__ == "__main__":
    main()
