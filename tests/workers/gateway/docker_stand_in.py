"""A stand-in for the program docker, for verifiers' runtime "docker": a container is a folder, in which bubblewrap runs programs.

It has the machine's network and its /usr, and python and "uv" of a virtual environment. `program` writes it as a script.
"""

import os
import shutil
import sys
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")
VALUED = ("--network", "--cpus", "--memory", "--entrypoint", "--name", "--env", "--workdir")
"""Options that have a value."""
UV = """#!/bin/sh
[ "$1" = python ] && echo {python}
true
"""


def program(folder: Path, python: Path) -> Path:
    """The folder of the script, for PATH. `python` has the packages of verifiers' harness "bash"."""
    programs, tools = folder / "programs", folder / "tools"
    for path, text in (
        (
            programs / "docker",
            f"#!{sys.executable}\nimport runpy\nrunpy.run_path({__file__!r}, run_name='__main__')\n",
        ),
        (tools / "uv", UV.format(python=python)),
        (tools / "pip", "#!/bin/sh\n"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return programs


def options(words: list[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """Options with a value, the environment's settings, and the words after all options."""
    values: dict[str, str] = {}
    settings = []
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in VALUED:
            values[option] = words.pop(0)
            settings += [values[option]] if option == "--env" else []
    return values, settings, words


def main(command: str, *words: str) -> None:
    """Do what docker does."""
    home = Path(os.environ["DOCKER_STAND_IN"])
    values, settings, rest = options(list(words))
    if command == "run":
        root = home / "containers" / values["--name"]
        for folder in ("tmp", "root", values["--workdir"].strip("/")):
            (root / folder).mkdir(parents=True, exist_ok=True)
        print(values["--name"])
    elif command == "rm":
        shutil.rmtree(home / "containers" / rest[0], ignore_errors=True)
    elif command == "exec":
        root = home / "containers" / rest[0]
        python = (home / "tools/uv").read_text().split("echo ")[1].split()[0]
        shared = [*SYSTEM, str(Path(python).parents[1]), str(Path(python).resolve().parents[1])]
        wrapped = ["bwrap", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--unshare-pid"]
        for folder in shared:
            wrapped += ["--ro-bind-try", folder, folder]
        wrapped += ["--ro-bind", str(home / "tools"), "/opt/tools", "--clearenv", "--setenv", "HOME", "/root"]
        wrapped += ["--setenv", "PATH", "/opt/tools:/usr/bin:/bin", "--chdir", values.get("--workdir", "/")]
        for setting in settings:
            wrapped += ["--setenv", *setting.split("=", 1)]
        os.execvp("bwrap", [*wrapped, *rest[1:]])


if __name__ == "__main__":
    main(*sys.argv[1:])
