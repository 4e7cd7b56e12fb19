"""`python -m workers.rollout_buffer`: the same as `troupe buffer`."""

from workers.cli.app import main

if __name__ == "__main__":
    import sys

    sys.argv[1:1] = ["buffer"]
    main()
