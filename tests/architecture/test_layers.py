"""Imports run one way: training_core <- workers <- webapp; light modules stay light."""

import subprocess
import sys

import pytest

from tests.architecture.source import PACKAGES, ROOT, imports, modules

WEB_MAY = ("training_core.config", "training_core.errors", "workers.launch")


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.split(".")[0] in PACKAGES}


@pytest.mark.parametrize(("package", "below"), [("training_core", ()), ("workers", ("training_core",))])
def test_lower_layers_know_nothing_of_upper_ones(package: str, below: tuple[str, ...]) -> None:
    for name, path in modules().items():
        if name.startswith(package):
            foreign = {used for used in ours(imports(path)) if used.split(".")[0] not in (package, *below)}
            assert not foreign, f"{name} imports {foreign}"


def test_the_web_side_knows_only_config_errors_and_the_launching_door() -> None:
    for name, path in modules().items():
        if name.startswith("webapp"):
            foreign = {
                used
                for used in ours(imports(path))
                if not used.startswith("webapp")
                and not any(used == door or used.startswith(door + ".") for door in WEB_MAY)
                and used not in ("training_core", "workers")
            }
            assert not foreign, f"{name} imports {foreign}"


@pytest.mark.parametrize("package", ["training_core"])
def test_the_library_knows_neither_ray_nor_django(package: str) -> None:
    for name, path in modules().items():
        if name.startswith(package):
            assert not {
                used for used in imports(path) if used.split(".")[0] in ("ray", "django", "celery")
            }, name


def test_workers_do_not_know_django() -> None:
    for name, path in modules().items():
        if name.startswith("workers"):
            assert not {used for used in imports(path) if used.split(".")[0] in ("django", "celery")}, name


def test_no_import_cycles() -> None:
    known = modules()
    graph = {
        name: {used for used in imports(path, top_level_only=True) if used in known and used != name}
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> None:
        assert name not in trail, f"cycle: {' -> '.join([*trail[trail.index(name) :], name])}"
        if name not in done:
            for used in graph[name]:
                visit(used, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("training_core.config.files", "torch ray django transformers numpy"),
        ("workers.launch.registry", "torch ray django transformers"),
        ("workers.launch.events", "torch ray django transformers"),
        ("workers.launch.demand", "torch ray django transformers"),
        ("workers.launch.estimates", "torch ray django transformers"),
        ("workers.reporting.reporter", "torch ray django transformers"),
        ("workers.run", "torch ray django transformers"),
        ("workers.cli.app", "torch ray django transformers"),
        ("workers.actors.env_worker", "torch django"),
        ("workers.loops.synchronous", "torch django transformers"),
        ("workers.loops.local", "ray django"),
    ],
)
def test_light_modules_stay_light(module: str, heavy: str) -> None:
    code = f"import sys, {module}; print([name for name in {heavy.split()} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert answer.stdout.strip() == "[]"
