"""Ray's command line with forked workers: `python -m workers.node start --head --block ...`, as `ray start` otherwise.

The head starts no server for Ray's client (`ray://` addresses), which nothing of Troupe uses and which takes a second of CPU time.
"""

from workers.node.forking import forked_workers


def main() -> None:
    """Start a node in the foreground. Its workers end with it."""
    from ray.scripts import scripts

    # `ray start` has no option for it: the server is left out where the client's packages are missing.
    scripts.get_ray_client_dependency_error = no_client  # type: ignore[attr-defined]
    with forked_workers():
        scripts.main()  # type: ignore[no-untyped-call]


def no_client() -> ImportError:
    """Return the reason why the head starts no server for Ray's client."""
    return ImportError("not used")


if __name__ == "__main__":
    main()
