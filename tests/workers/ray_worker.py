"""The program that Ray's node starts as a worker in tests: requests a process from `forking.py` and ends when that process ends.

Ray starts it by its path with the worker's arguments. It imports the standard library only.
"""

import json
import os
import socket
import sys

ADDRESS = "TROUPE_TESTS_FORKING"


def main() -> None:
    """Sends arguments, environment, folder and the three streams. Returns when the other end closes."""
    request = {"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ[ADDRESS])
        socket.send_fds(line, [b"\0"], [0, 1, 2])
        line.sendall(json.dumps(request).encode())
        line.shutdown(socket.SHUT_WR)
        line.recv(1)


if __name__ == "__main__":
    main()
