"""Images, as far as reading goes: no engine is needed. `make containers` builds and runs them."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from troupe_client.pythons import TESTED
from webapp.documents.rendering import FILES

DOCKER = ROOT / "docker"
IMAGES = sorted(DOCKER.glob("Dockerfile.*"))


def instructions(path: Path) -> list[tuple[str, str]]:
    """(instruction, rest) of a Dockerfile, continued lines joined, comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


def values(path: Path, instruction: str) -> list[str]:
    """What stands behind every such instruction."""
    return [rest for word, rest in instructions(path) if word == instruction]


def copied(path: Path) -> list[str]:
    """What an image takes from the repository."""
    words = [shlex.split(rest) for rest in values(path, "COPY")]
    return [source for sources in words if not sources[0].startswith("--from") for source in sources[:-1]]


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_what_an_image_copies_exists_and_is_not_ignored(path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {"pyproject.toml", "constraints.txt", "training_core", "workers", "troupe_client"} <= set(
        copied(path)
    )
    for source in copied(path):
        assert (ROOT / source).exists(), source
        assert source not in ignored


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_an_image_is_pinned_and_not_root(path: Path) -> None:
    known = ["FROM", "ARG", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD"]
    assert {word for word, _ in instructions(path)} <= set(known)
    arguments = dict(rest.partition("=")[::2] for rest in values(path, "ARG"))
    stages = [
        re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], rest) for rest in values(path, "FROM")
    ]
    base = f"python:{TESTED[-1]}-slim-bookworm"
    assert stages == [f"{base} AS requirements", base]
    installs = [rest for rest in values(path, "RUN") if "pip install" in rest]
    assert installs
    assert all("-c constraints.txt" in rest for rest in installs)
    assert any("requirements.py server > server.txt" in rest for rest in values(path, "RUN"))
    assert any("-r server.txt" in rest for rest in installs)
    assert values(path, "USER") == ["troupe"]
    assert instructions(path)[-1][0] == "CMD"


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_what_is_imported_and_read_is_in_the_image(path: Path) -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name.rstrip("*") for name in setup["packages"]["find"]["include"]}
    wanted = {f"{name}.py" for name in setup["py-modules"]} | packages - {"webapp"}
    if path.name == "Dockerfile.web":
        pages = (link.resolve() for link in FILES.rglob("*") if link.is_symlink())
        wanted |= {"webapp"} | {page.relative_to(ROOT.resolve()).as_posix() for page in pages}
    assert wanted <= set(copied(path))


def test_the_requirements_of_extras_are_those_of_an_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = subprocess.run(
        [sys.executable, DOCKER / "requirements.py", "[gpu,marl]"], capture_output=True, text=True, check=True
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    added = {*extras["gpu"], *extras["marl"]} - {"troupe[server]"}
    assert set(done.stdout.splitlines()) == {*project["dependencies"], *added}


def test_the_web_server_takes_its_options() -> None:
    from webapp.stack.serve import server_config

    assert json.loads(values(DOCKER / "Dockerfile.web", "CMD")[0]) == [
        "python", "-m", "webapp.stack.serve", "0.0.0.0:8000",
    ]  # fmt: skip
    config = server_config()
    assert config.app == "webapp.site.asgi:application"
    assert (config.ws_per_message_deflate, config.access_log, config.lifespan) == (False, False, "off")


def test_the_worker_is_started_as_the_stack_starts_it() -> None:
    from webapp.stack.plan import WORKER

    words = json.loads(values(DOCKER / "Dockerfile.worker", "CMD")[0])
    assert words[:4] == ["celery", "-A", "webapp.site.celery", "worker"]
    assert words[4:] == WORKER


def test_the_web_side_has_its_pages_and_runs_have_none_of_it() -> None:
    for name in ("web", "worker"):
        assert {"templates", "static", "manage.py", "webapp"} <= set(copied(DOCKER / f"Dockerfile.{name}"))
    assert not {"templates", "static", "webapp"} & set(copied(DOCKER / "Dockerfile.ray"))


def test_the_ray_image_is_for_cpu_and_gpu_by_arguments() -> None:
    path = DOCKER / "Dockerfile.ray"
    assert {rest.partition("=")[0] for rest in values(path, "ARG")} >= {"BASE", "EXTRAS"}
    assert any('requirements.py "$EXTRAS" > extras.txt' in rest for rest in values(path, "RUN"))
    assert any("-r extras.txt" in rest for rest in values(path, "RUN"))
