"""A rollout in a process of its own: `python -m workers.rollout_buffer.play PLUGIN.py`, its request as one line on stdin.

stdin stays open for as long as the service lives. When it closes, the rollout and everything it started end.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import orjson

from workers.rollout_buffer.plugins import find_plugins, load_plugin


def main() -> int:
    """Run the plugin's run_rollout; the exit status."""
    path = Path(sys.argv[1])
    request = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_service, daemon=True).start()
    find_plugins([path.parent])  # so that it can import its neighbours
    plugin = load_plugin(path)
    if plugin is None:
        sys.stderr.write(f"{path} has no TASK_TYPE and run_rollout\n")
        return 1
    plugin.run_rollout(request)
    return 0


def _end_with_service() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
