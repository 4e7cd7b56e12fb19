"""Imports run one way: training_core <- workers <- webapp and troupe_client; light modules stay light."""

import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT, imports, modules

WEB_MAY = (
    "training_core.config",
    "training_core.errors",
    "training_core.json_lines",
    "training_core.llm.datasets",
    "troupe_client.documents",
    "troupe_client.mcp",
    "workers.http",
    "workers.launchers",
    "workers.provenance",
    "workers.sizing",
    "workers.storage",
    "workers.telemetry",
)
CLIENT_MAY = (
    "training_core.config",
    "training_core.errors",
    "training_core.json_lines",
    "training_core.sandbox.run",
    "workers.http",
    "workers.provenance",
    "workers.reporting",
    "workers.rollout_buffer.rules",
    "workers.storage.folders",
    "workers.telemetry",
)
"""What the client imports at start. Commands of the server import more when they are called."""
ORDER: dict[str, tuple[str, ...]] = {
    "training_core": (
        "config.arguments config.networks",
        "boards errors event_loop json_lines seeding served types",
        "algorithms algorithms.at_grpo algorithms.gae algorithms.losses",
        "checkpoints devices fast_linear importing limited_process sandbox versions",
        "marl.environments.episodes marl.environments.packages",
        "config.base llm.environments.base marl.environments.base",
        "config.effects",
        "config.rewards llm.answers",
        "llm.rewards.*",
        "algorithms.*config llm.*config loggers marl.*config",
        "algorithms.*hooks",
        "algorithms.registry marl.algorithms.registry",
        "llm.environments* llm.generation.registry llm.learning.registry",
        "marl.environments.registry marl.networks.registry",
        "algorithms.*",
        "config",
        "llm marl",
    ),
    "training_core.llm": (
        "answers",
        "models rewards",
        "environments generation",
        "datasets serving",
        "agents learning rollout_workflows",
        "external",
        "workflows",
        "base_models",
    ),
    "workers": (
        "http kinds ray_private",
        "protocol provenance sizing storage prefork base_model",
        "gateway rollout_buffer telemetry",
        "actors launchers reporting",
        "jobs",
        "preflight",
        "driver job",
        "run",
    ),
    "troupe_client": ("documents pythons server_api", "mcp playing reporting", "reading", "bundles", "cli"),
    "webapp": (
        "config common agents",
        "api documents",
        "accounts",
        "administration runs",
        "metrics notifications provenance shares",
        "checkpoints media transcripts",
        "quotas timeline",
        "artifacts",
        "scheduling",
        "ingest stack",
        "mlflow",
        "health live reconciliation",
        "cluster",
        "experiments",
        "jobs run_table",
        "compare run_pages",
        "reports",
        "site",
    ),
}
"""Packages of a layer from the ground up; modules directly in a layer count as packages. A package imports lower lines only.
A pattern with a dot sets modules apart from their package: configs of registered components are below the other configs. The first
pattern that matches holds, so that a new variant has its place by the pattern of its package.

A key may also be a package whose own packages have an order.
"""


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.split(".")[0] in PACKAGES}


@pytest.mark.parametrize(
    ("package", "below"),
    [
        ("training_core", ()),
        ("workers", ("training_core",)),
        ("troupe_client", ("training_core", "workers")),
    ],
)
def test_lower_layers_know_nothing_of_upper_ones(package: str, below: tuple[str, ...]) -> None:
    for name, path in modules().items():
        if name.startswith(package):
            foreign = {used for used in ours(imports(path)) if used.split(".")[0] not in (package, *below)}
            assert not foreign, f"{name} imports {foreign}"


def upward_imports(layer: str, known: dict[str, Path]) -> set[str]:
    """Imports of a layer's modules against its order."""
    heights = {package: height for height, line in enumerate(ORDER[layer]) for package in line.split()}
    apart = [pattern for pattern in heights if "." in pattern]

    def package_of(name: str) -> str:
        inner = name.removeprefix(f"{layer}.")
        return next((pattern for pattern in apart if fnmatchcase(inner, pattern)), inner.split(".")[0])

    return {
        f"{name} -> {used}"
        for name, path in known.items()
        for used in imports(path)
        if name.startswith(f"{layer}.") and used.startswith(f"{layer}.") and used in known
        if (package := package_of(name)) != (other := package_of(used)) and heights[package] <= heights[other]
    }


@pytest.mark.parametrize("layer", ORDER)
def test_packages_of_a_layer_import_lower_ones_only(layer: str) -> None:
    """Lazy and type-only imports count, so that no cycle between packages can hide."""
    assert upward_imports(layer, modules()) == set()


def test_the_web_layer_imports_listed_packages_only() -> None:
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


def test_the_client_imports_light_packages_only_when_it_starts() -> None:
    for name, path in modules().items():
        if name.startswith("troupe_client"):
            foreign = {
                used
                for used in ours(imports(path, top_level_only=True))
                if not used.startswith("troupe_client")
                and not any(used == door or used.startswith(door + ".") for door in CLIENT_MAY)
                and not any(door.startswith(used + ".") for door in CLIENT_MAY)
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
        ("workers.launchers.registry", "torch ray django transformers"),
        ("workers.telemetry.events", "torch ray django transformers"),
        ("workers.sizing.estimates", "torch ray django transformers"),
        ("workers.sizing.placement", "torch ray django transformers"),
        ("workers.reporting.reporter", "torch ray django transformers"),
        ("workers.run", "torch ray django transformers"),
        ("troupe_client.cli.app", "torch ray django transformers"),
        ("workers.actors.environment_workers", "torch django transformers"),
        ("workers.driver.attempt", "torch ray django transformers"),
        ("workers.driver.ray_backend", "torch django transformers"),
        ("workers.driver.local_backends", "ray django"),
    ],
)
def test_light_modules_stay_light(module: str, heavy: str) -> None:
    code = f"import sys, {module}; print([name for name in {heavy.split()} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert answer.stdout.strip() == "[]"


def folder_of(name: str) -> str:
    """The folder of a module, two parts deep; three below config, llm and marl. Configs count with their folder."""
    parts = name.split(".")
    deep = tuple(parts[:2]) in {("training_core", part) for part in ("config", "llm", "marl")}
    return ".".join(parts[: 3 if deep else 2])


def test_folders_need_each_other_one_way() -> None:
    """ORDER sets configs apart from the folder they lie in; here they count with it."""
    known = modules()
    needs: dict[str, set[str]] = {}
    for name, path in known.items():
        used = {
            folder_of(other)
            for other in imports(path) & known.keys()
            if other.split(".")[0] == name.split(".")[0]
        }
        needs.setdefault(folder_of(name), set()).update(used - {folder_of(name)})
    while free := [folder for folder, below in needs.items() if not below & needs.keys()]:
        for folder in free:
            del needs[folder]
    assert not needs, f"these folders form a cycle, or are above one: {sorted(needs)}"
