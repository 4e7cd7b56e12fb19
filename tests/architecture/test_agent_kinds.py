"""The kind of agents is stated in the config, and asked in the registry of each layer; nothing else forks on it."""

import ast
import re
from dataclasses import fields

import pytest

from tests.architecture.source import ROOT, modules, tree
from training_core.config.experiment import AgentKind
from training_core.config.kinds import CONFIG_KINDS
from training_core.importing import resolve
from webapp.agents.registry import AGENT_PAGES
from workers.kinds import WORKER_KINDS

CONFIG_CLASSES = {"RunConfig", "MarlConfig"}
OWNERS = {
    "training_core.config.experiment",
    "training_core.config.kinds",
    "training_core.config.run",
    "training_core.config.marl",
    "webapp.agents.registry",
    "workers.kinds",
}
"""The enumeration, the config classes that state their kind, and the registries."""


def forks(module: ast.Module) -> list[str]:
    """Tests of a config's class, and uses of one kind's name."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            classes = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            if classes & CONFIG_CLASSES:
                found.append(ast.unparse(node))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "AgentKind":
            found.append(ast.unparse(node))
        if isinstance(node, ast.Compare) and set(AgentKind) & {
            side.value for side in ast.walk(node) if isinstance(side, ast.Constant)
        }:
            found.append(ast.unparse(node))
    return found


def test_a_fork_is_found() -> None:
    sources = ("isinstance(config, RunConfig | X)", "a is AgentKind.NETWORKS", "agents == 'networks'")
    assert all(forks(ast.parse(source)) for source in sources)
    assert not forks(ast.parse("isinstance(config, Section) or KINDS[config.agents].takes_turns"))


@pytest.mark.extended
def test_nothing_forks_on_the_kind_of_agents() -> None:
    found = {name: forks(tree(path)) for name, path in modules().items() if name not in OWNERS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_templates_ask_values_of_the_kind() -> None:
    tags = re.compile(r"{%[^%]*(networks|language_models)[^%]*%}")
    found = {path.name: tags.findall(path.read_text()) for path in (ROOT / "templates").rglob("*.html")}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("registry", [CONFIG_KINDS, WORKER_KINDS, AGENT_PAGES])
def test_each_registry_has_each_kind(registry: dict[AgentKind, object]) -> None:
    assert set(registry) == set(AgentKind)


@pytest.mark.parametrize("agents", AgentKind)
def test_the_parts_of_the_workers_exist(agents: AgentKind) -> None:
    kind = WORKER_KINDS[agents]
    named = [getattr(kind, field.name) for field in fields(kind) if field.name != "jobs"]
    for path in (*filter(None, named), *kind.jobs.values()):
        assert callable(resolve(path)), path


@pytest.mark.parametrize("agents", AgentKind)
def test_a_config_states_its_kind(agents: AgentKind) -> None:
    assert CONFIG_KINDS[agents].config.agents is agents


@pytest.mark.parametrize("agents", AgentKind)
def test_pages_refuse_the_jobs_that_workers_do_not_have(agents: AgentKind) -> None:
    every = {name for kind in WORKER_KINDS.values() for name in kind.jobs}
    assert set(AGENT_PAGES[agents].refused_jobs) == every - set(WORKER_KINDS[agents].jobs)
