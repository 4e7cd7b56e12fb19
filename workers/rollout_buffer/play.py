"""A rollout in its own process: `python -m workers.rollout_buffer.play PLUGIN.py`, with the request as one line on stdin.

stdin stays open as long as the service runs. When it closes, the rollout and all its child processes end.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import orjson

from workers.rollout_buffer.plugins import find_plugins, load_plugin


def main() -> int:
    """Run the plugin's run_rollout and return the exit status."""
    path = Path(sys.argv[1])
    request = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_service, daemon=True).start()
    find_plugins([path.parent])  # lets it import modules of its folder
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
