"""The compose file: whole, closed to others, and naming only what the code reads."""

import re
from importlib.util import find_spec
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.docs.variables import INTERNAL, container_variables, documented_variables

DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
CUDA: dict[str, Any] = yaml.safe_load((DOCKER / "compose.cuda.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
READ_BY_RAY = {"RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"}
OF_PROCESSES = {"DJANGO_SETTINGS_MODULE", "PYTHONPATH", "HOME"}
KEYS = {"JUDGE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
KNOWN = READ_BY_RAY | documented_variables() | INTERNAL | OF_PROCESSES | KEYS
OURS = [name for name, service in SERVICES.items() if service["image"].startswith("troupe-")]
RAY = yaml.safe_load((DOCKER / "compose.ray.yaml").read_text())["services"]
FIXED = {"TROUPE_STATIC_ROOT", "TROUPE_DEBUG"}
"""Documented variables of the web server with one value in the images."""
ONE_SHOT = "prepare"
"""Others wait for its end, not for its health."""


def source_of(volume: str) -> str:
    """The volume or folder of a mount without variables of the user."""
    return re.sub(r"\$\{[A-Z_]+:-(\w+)\}", r"\1", volume).split(":")[0]


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_a_service_is_one_that_is_read(name: str) -> None:
    assert set(SERVICES[name]["environment"]) <= KNOWN


def test_variables_that_the_compose_files_take_are_documented() -> None:
    page = (DOCKER / "README.md").read_text()
    assert {name for name in container_variables() if name not in page} <= documented_variables()


def test_documented_variables_of_the_web_server_reach_it() -> None:
    assert documented_variables("Web server") - FIXED <= set(SERVICES["web"]["environment"])


@pytest.mark.parametrize("service", [*SERVICES.values(), *RAY.values()], ids=[*SERVICES, *RAY])
def test_a_service_writes_to_volumes_alone_and_gains_no_rights(service: dict[str, Any]) -> None:
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert set(service.get("cap_add", [])) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


def test_secrets_come_from_outside_and_must_be_given() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    for name in ("POSTGRES_PASSWORD", "TROUPE_SECRET_KEY", "RAY_AUTH_TOKEN"):
        ways = set(re.findall(rf"\$\{{{name}(.{{2}})", text))
        assert ways == {":?"}, f"{name} has a default, or may be left out"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_exists(name: str) -> None:
    service = SERVICES[name]
    assert set(service.get("depends_on", {})) <= set(SERVICES)
    assert {source_of(volume) for volume in service.get("volumes", [])} <= {
        *COMPOSE["volumes"],
        "./own/code",
        "./own/models",
    }
    assert service["networks"]
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    if "build" in service:
        assert (ROOT / service["build"]["dockerfile"]).exists()
        assert (DOCKER / service["build"]["context"]).resolve() == ROOT


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_or_is_waited_for(name: str) -> None:
    if name == ONE_SHOT:
        waits = [
            s["depends_on"][name]["condition"] for s in SERVICES.values() if name in s.get("depends_on", {})
        ]
        assert set(waits) == {"service_completed_successfully"}
        return
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    assert command[0] in ("pg_isready", "redis-cli", "python")
    if command[0] == "python":
        assert command[1] == "-m"
        assert find_spec(command[2])


def test_ports_are_published_on_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("${TROUPE_ADDRESS:-127.0.0.1}:") for port in published)


def test_who_trains_has_no_secrets_of_the_server() -> None:
    ray = SERVICES["ray"]
    assert not set(ray["environment"]) & {"DATABASE_URL", "REDIS_URL", "TROUPE_SECRET_KEY", "TROUPE_TOKEN"}
    assert {source_of(volume) for volume in ray["volumes"]} == {
        "runs",
        "models",
        "work",
        "ray-tmp",
        "./own/models",
    }
    for name in ("postgres", "redis"):
        assert not set(SERVICES[name]["networks"]) & set(ray["networks"])


def test_who_must_talk_shares_a_network() -> None:
    for name, others in {"web": ("postgres", "redis", "ray"), "worker": ("postgres", "redis", "ray")}.items():
        for other in others:
            assert set(SERVICES[name]["networks"]) & set(SERVICES[other]["networks"])


def test_runs_models_and_short_jobs_are_where_both_sides_look() -> None:
    for name in ("web", "worker", "ray"):
        home = SERVICES[name]["environment"]["TROUPE_HOME"]
        wanted = {f"{folder}:{home}/{folder}" for folder in ("runs", "models", "work")}
        assert wanted <= {
            re.sub(r"\$\{[A-Z_]+:-(\w+)\}", r"\1", volume) for volume in SERVICES[name]["volumes"]
        }


@pytest.mark.parametrize("ray", [SERVICES["ray"], CUDA["services"]["ray"]])
def test_shared_memory_holds_the_object_store(ray: dict[str, Any]) -> None:
    """Ray would put a larger one into files."""
    shared = int(ray["shm_size"].removesuffix("gb")) * 2**30
    assert int(ray["environment"]["RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES"]) <= 0.95 * shared


def test_ray_ends_before_an_engine_kills_it() -> None:
    assert "stop_grace_period" not in SERVICES["ray"]
    assert float(SERVICES["ray"]["environment"]["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]) < 10


def test_the_file_for_gpus_adds_to_the_other() -> None:
    assert set(CUDA["services"]) == {"ray"}
    assert CUDA["services"]["ray"]["build"]["args"]["EXTRAS"] == "[gpu,marl]"
    devices = CUDA["services"]["ray"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["capabilities"] == ["gpu"]


def test_addresses_are_of_kinds_that_the_settings_take() -> None:
    from webapp.config.environment import database
    from workers.launchers.ray_jobs import RayJobLauncher

    given = SERVICES["web"]["environment"]
    found = database(re.sub(r"\$\{POSTGRES_PASSWORD[^}]*\}", "secret", given["DATABASE_URL"]))
    place = [found[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")]
    assert place == ["troupe", "troupe", "secret", "postgres", "5432"]
    launcher = RayJobLauncher(re.sub(r"\$\{\w+:-(.*)\}", r"\1", given["RAY_ADDRESS"]))
    assert launcher.remote
    launcher.close()
