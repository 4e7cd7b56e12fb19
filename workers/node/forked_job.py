"""A short job in a forked process: `python -m workers.node.forked_job FOLDER --home HOME`, as `python -m workers.job` otherwise.

Where no fork server serves this node, or not this job, this process becomes `python -m workers.job`.
"""

import os
import sys

from workers.node.forked_worker import SOCKET, run_forked


def main(words: list[str]) -> int:
    """Run the job and return its exit status."""
    program = ["-m", "workers.job", *words]
    address = os.environ.get(SOCKET, "")
    status = run_forked(address, program) if address else None
    if status is None:
        os.execv(sys.executable, [sys.executable, *program])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
