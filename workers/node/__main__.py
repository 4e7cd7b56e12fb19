"""Ray's command line with forked workers: `python -m workers.node start --head --block ...`, as `ray start` otherwise."""

from workers.node.forking import forked_workers


def main() -> None:
    """Start a node in the foreground. Its workers end with it."""
    from ray.scripts.scripts import main as ray_command

    with forked_workers():
        ray_command()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
