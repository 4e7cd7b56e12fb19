"""Install packages into the environment of this interpreter: by uv, or by pip where uv is not available.

`python install.py ARGUMENT ...` takes arguments of `pip install`. uv takes the package indexes from pip's configuration.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from troupe_client.pythons import TESTED, is_tested, python_error

error = python_error()
if error:  # before what an old Python cannot read
    sys.exit(error)

PIP = [sys.executable, "-m", "pip"]
OPTIONS = {
    "find-links": "--find-links",
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "trusted-host": "--allow-insecure-host",
    "constraint": "--constraint",
}
"""Settings of pip -> options of uv."""


def uv_options(settings: str) -> Iterator[str]:
    """Yield options of uv for the output of `pip config list`: lines such as global.find-links='/wheels'."""
    for line in settings.splitlines():
        name, _, value = line.partition("=")
        option = OPTIONS.get(name.rpartition(".")[2])
        if option:
            for word in str(ast.literal_eval(value)).split():
                yield from (option, word)


def install_by_uv(words: list[str]) -> bool:
    """Install with uv, which is installed first. Returns whether it succeeded."""
    if subprocess.run([*PIP, "install", "-q", "-c", "constraints.txt", "uv"], check=False).returncode:
        return False
    settings = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    command = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "install",
        "--python",
        sys.executable,
        "--compile-bytecode",
    ]
    # As pip does: the newest version of all indexes.
    choice = ["--index-strategy", "unsafe-best-match", *uv_options(settings)]
    return subprocess.run([*command, *choice, *words], check=False).returncode == 0


def main(words: list[str]) -> int:
    """Install by uv, else by pip; returns the exit status."""
    if not is_tested():
        print(
            f"Python {sys.version.split()[0]} is not among the tested versions: {', '.join(TESTED)}.",
            flush=True,
        )
    if install_by_uv(words):
        return 0
    print("Installing by pip ...", flush=True)
    return subprocess.run([*PIP, "install", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
