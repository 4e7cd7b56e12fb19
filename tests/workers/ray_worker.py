"""What Ray's node starts in place of a worker's interpreter: asks `forking.py` for a process and lasts as long as that one.

Ray starts it by its path and with the worker's arguments; it imports next to nothing.
"""

import json
import os
import socket
import sys

ADDRESS = "TROUPE_TESTS_FORKING"


def main() -> None:
    """Hand over arguments, environment, folder and the three streams; return when the other end is closed."""
    asked = {"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ[ADDRESS])
        socket.send_fds(line, [b"\0"], [0, 1, 2])
        line.sendall(json.dumps(asked).encode())
        line.shutdown(socket.SHUT_WR)
        line.recv(1)


if __name__ == "__main__":
    main()
