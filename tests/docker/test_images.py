"""Container files, as far as reading goes: no engine is needed, and none has run them."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.environment_variables import GROUPS, INTERNAL
from tests.architecture.source import ROOT

DOCKER = ROOT / "docker"
IMAGES = sorted(DOCKER.glob("*.Dockerfile"))
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
CUDA: dict[str, Any] = yaml.safe_load((DOCKER / "compose.cuda.yaml").read_text())
KNOWN = {name for _, _, rows in GROUPS for name, _, _ in rows} | INTERNAL | {"DJANGO_SETTINGS_MODULE"}
OURS = [name for name, service in COMPOSE["services"].items() if service["image"].startswith("troupe-")]
GIVEN_TO_POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """(instruction, rest) of a Dockerfile, continued lines joined, comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


def test_there_are_images_for_every_part() -> None:
    assert [path.name for path in IMAGES] == [
        "ray-cuda.Dockerfile", "ray.Dockerfile", "web.Dockerfile", "worker.Dockerfile",
    ]  # fmt: skip


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_what_an_image_copies_exists_and_is_not_ignored(path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = [
        source for word, rest in instructions(path) if word == "COPY" for source in shlex.split(rest)[:-1]
    ]
    assert {"pyproject.toml", "constraints.txt", "training_core", "workers"} <= set(copied)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert source not in ignored


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
def test_an_image_is_pinned_and_not_root(path: Path) -> None:
    lines = instructions(path)
    assert lines[0] == ("FROM", "python:3.11-slim-bookworm")
    assert {word for word, _ in lines} <= {
        "FROM", "ARG", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "CMD",
    }  # fmt: skip
    installs = [rest for word, rest in lines if word == "RUN" and "pip install" in rest]
    assert installs
    assert all("-c constraints.txt" in rest for rest in installs)
    assert [rest for word, rest in lines if word == "USER"] == ["troupe"]
    assert lines[-1][0] == "CMD"


def test_the_web_side_has_its_pages() -> None:
    for name in ("web", "worker"):
        copied = " ".join(
            rest for word, rest in instructions(DOCKER / f"{name}.Dockerfile") if word == "COPY"
        )
        assert all(part in copied for part in ("templates", "static", "manage.py", "webapp"))


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_a_service_is_one_that_is_read(name: str) -> None:
    assert set(COMPOSE["services"][name]["environment"]) <= KNOWN


def test_variables_that_the_compose_file_takes_are_known() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    taken = set(re.findall(r"\$\{([A-Z_]+)", text))
    assert taken <= KNOWN | GIVEN_TO_POSTGRES | {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"}


def test_the_compose_file_is_whole() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "redis", "prepare", "web", "worker", "beat", "ray"}
    for name, service in services.items():
        for needed in service.get("depends_on", {}):
            assert needed in services, f"{name} waits for {needed}"
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in COMPOSE["volumes"]
        if name not in ("prepare", "beat"):
            assert service["healthcheck"]["test"], name
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).exists()
            assert (DOCKER / service["build"]["context"]).resolve() == ROOT
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name} is open to other machines"
    assert services["ray"]["shm_size"]
    assert set(CUDA["services"]) <= set(services)
    assert (ROOT / CUDA["services"]["ray"]["build"]["dockerfile"]).exists()


def test_who_trains_has_no_secrets_of_the_server() -> None:
    given = set(COMPOSE["services"]["ray"]["environment"])
    assert not given & {"DATABASE_URL", "REDIS_URL", "TROUPE_SECRET_KEY", "TROUPE_TOKEN"}


def test_addresses_are_of_kinds_that_the_settings_take() -> None:
    from webapp.config.environment import database
    from workers.launch.ray_jobs import RayJobLauncher

    given = COMPOSE["services"]["web"]["environment"]
    url = re.sub(r"\$\{POSTGRES_PASSWORD[^}]*\}", "secret", given["DATABASE_URL"])
    assert database(url) | {} == {
        "ENGINE": "django.db.backends.postgresql", "NAME": "troupe", "USER": "troupe", "PASSWORD": "secret",
        "HOST": "postgres", "PORT": "5432", "CONN_MAX_AGE": 0,
    }  # fmt: skip
    launcher = RayJobLauncher(given["RAY_ADDRESS"])
    assert launcher.remote
    launcher.close()
