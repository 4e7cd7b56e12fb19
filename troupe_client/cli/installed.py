"""Whether this environment has the packages of the server, or the client alone."""

from importlib.util import find_spec

from training_core.errors import TroupeError

SERVER = ("torch", "ray", "django")
"""Packages of the extra `server` that the client does not install."""


def require_server() -> None:
    """Raise TroupeError unless the packages of the extra `server` are installed. Imports none of them."""
    missing = [name for name in SERVER if find_spec(name) is None]
    if missing:
        raise TroupeError(
            f"this command needs {', '.join(missing)}, and only the client is installed here: "
            "run `make install` in the checkout, or pip install '.[server]'"
        )
