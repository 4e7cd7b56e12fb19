"""Images, as far as reading goes: no engine is needed. `make containers` builds and runs them."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from troupe_client.pythons import TESTED

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
    return [source for rest in values(path, "COPY") for source in shlex.split(rest)[:-1]]


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
    base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], values(path, "FROM")[0])
    assert base == f"python:{TESTED[-1]}-slim-bookworm"
    installs = [rest for rest in values(path, "RUN") if "pip install" in rest]
    assert installs
    assert all("-c constraints.txt" in rest for rest in installs)
    assert any('-e ".[server]"' in rest for rest in installs)
    assert values(path, "USER") == ["troupe"]
    assert instructions(path)[-1][0] == "CMD"


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_mount_points_belong_to_who_writes_there(path: Path) -> None:
    made = next(rest for rest in values(path, "RUN") if "install -d -o troupe" in rest)
    assert set(values(path, "VOLUME")[0].split()) <= set(made.split())


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
    assert any('-e ".${EXTRAS}"' in rest for rest in values(path, "RUN"))
