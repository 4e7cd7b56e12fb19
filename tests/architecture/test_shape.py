"""Files, functions, registries: the house rules that can be counted."""

import ast
import re
from pathlib import Path
from statistics import median, quantiles
from typing import get_args

import pytest
from pydantic import BaseModel

from tests.architecture.source import PACKAGES, ROOT, functions, modules, tree
from training_core.algorithms.registry import ALGORITHM_CONFIGS
from training_core.config.files import parse_config, preset_names, read_preset
from training_core.config.kinds import CONFIG_KINDS
from training_core.config.marl import MarlConfig, MarlPolicy
from training_core.config.models import Policy
from training_core.config.rollout import WORKFLOW_CONFIGS
from training_core.config.run import ENVIRONMENT_CONFIGS, RunConfig
from training_core.importing import resolve
from training_core.marl.environments.registry import MARL_ENVIRONMENT_CONFIGS

LINES = 800
TEMPLATE_WIDTH = 160


def sources() -> list[Path]:
    folders = [*PACKAGES, "tests", "static"]
    found = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".js", ".css")
    ]
    return [path for path in found if "migrations" not in path.parts]


def test_no_file_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources()
        if (count := path.read_text().count("\n")) > LINES
    }
    assert not long


def test_no_line_of_a_template_is_wide_or_ends_within_a_tag() -> None:
    """Django shows a tag that spans lines as text."""
    templates = [path for path in (ROOT / "templates").rglob("*") if path.is_file()]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in templates
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > TEMPLATE_WIDTH or re.search(r"\{[{%](?!.*[}%]\})", line)
    ]
    assert templates and not wrong, wrong


def test_script_components_are_classes() -> None:
    """A function holds no other function declaration, and returns no object with the methods of a component."""
    other = re.compile(
        r"^[ \t]+(?:async )?function\b|\breturn \{[^}]*\b(?:delta|again)\b|^[ \t]+this\.\w+ = \(", re.M
    )
    scripts = {path: path.read_text() for path in (ROOT / "static" / "js").rglob("*.js")}
    assert scripts and not [path for path, text in scripts.items() if other.search(text)]


def test_package_markers_are_empty() -> None:
    full = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
        if path.read_text().strip()
    ]
    assert not full


def test_docstrings_are_not_only_references() -> None:
    references = [path for path in modules().values() if '"""See ' in path.read_text()]
    assert not references


def test_functions_are_short() -> None:
    lengths = [
        length
        for path in modules().values()
        if "migrations" not in path.parts
        for _, length in functions(path)
    ]
    assert median(lengths) <= 12
    assert quantiles(lengths, n=10)[-1] <= 40
    assert max(lengths) <= 80


def test_no_unfinished_work() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [str(path) for path in modules().values() if marks.search(path.read_text())]
    assert not found


def test_every_part_of_a_formatted_message_is_formatted() -> None:
    """Of adjacent strings, each needs its own `f`."""
    parts = [
        (path, part.value)
        for path in modules().values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.JoinedStr)
        for part in node.values
        if isinstance(part, ast.Constant)
    ]
    assert parts and not [part for part in parts if re.search(r"\{[a-z_][\w.]*\}", part[1])]


def tags(field: str, section: type[BaseModel] = RunConfig) -> set[str]:
    """Every `type` that a section's field may have."""
    found = section.model_fields[field].annotation
    sections = [found] if isinstance(found, type) else get_args(found)
    return {part.model_fields["type"].default for part in sections}


def registries() -> dict[str, tuple[set[str], set[str]]]:
    """Per kind: tags of the config, keys of the registry."""
    from training_core.llm.environments.registry import ENVIRONMENTS
    from training_core.llm.generation.registry import ENGINES
    from training_core.llm.learning.registry import LEARNERS
    from training_core.llm.workflows.registry import WORKFLOWS
    from training_core.marl.networks.registry import NETWORKS

    return {
        "environment": (tags("environment"), set(ENVIRONMENTS)),
        "workflow": (tags("workflow"), set(WORKFLOWS)),
        "engine": (tags("engine", Policy), set(ENGINES)),
        "learner": (tags("learner", Policy), set(LEARNERS)),
        "network": (tags("network", MarlPolicy), set(NETWORKS)),
    }


def test_every_registry_tag_has_a_config_class_and_every_class_its_tag() -> None:
    from training_core.llm.environments.registry import ENVIRONMENTS, types_with_warm_start, warm_start_of

    for kind, (configured, registered) in registries().items():
        assert configured == registered, kind
    for tag in types_with_warm_start():
        assert warm_start_of(tag).noise >= 0.0
    for tag, kind in ENVIRONMENTS.items():
        assert getattr(kind.make, "roles") == getattr(ENVIRONMENT_CONFIGS[tag], "roles")  # noqa: B009
    assert tags("environment") == set(ENVIRONMENT_CONFIGS)
    assert tags("workflow") == set(WORKFLOW_CONFIGS)
    assert tags("algorithm") == set(ALGORITHM_CONFIGS)
    for classes in (ENVIRONMENT_CONFIGS, WORKFLOW_CONFIGS, ALGORITHM_CONFIGS):
        assert {tag: section.model_fields["type"].default for tag, section in classes.items()} == {
            tag: tag for tag in classes
        }


def test_every_environment_of_small_networks_has_its_tag_and_a_constructor() -> None:
    from training_core.marl.environments.registry import MARL_ENVIRONMENTS, PACKAGE

    for tag, kind in MARL_ENVIRONMENTS.items():
        assert kind.config.model_validate(smallest(tag)).type == tag
        assert callable(resolve(f"{PACKAGE}.{kind.make}"))
    assert tags("environment", MarlConfig) <= set(MARL_ENVIRONMENT_CONFIGS)


def test_every_network_has_its_tag_and_a_constructor() -> None:
    from training_core.marl.networks.agents import PACKAGE
    from training_core.marl.networks.registry import NETWORKS

    for tag, kind in NETWORKS.items():
        assert kind.config.model_fields["type"].default == tag
        assert callable(resolve(f"{PACKAGE}.{kind.make}"))


def smallest(tag: str) -> dict[str, str]:
    """The least that a section of this tag has to be told."""
    return {"type": tag} | ({"path": "package.module:name"} if tag in ("pettingzoo", "custom_marl") else {})


def test_every_tag_is_named_by_a_test() -> None:
    tests = "\n".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if "architecture" not in path.parts
    )
    from training_core.marl.environments.registry import MARL_ENVIRONMENTS

    named = [tag for configured, _ in registries().values() for tag in configured]
    named += [*ALGORITHM_CONFIGS, *MARL_ENVIRONMENTS]
    assert not [tag for tag in named if tag not in tests]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_parses_and_says_what_it_is_for(name: str) -> None:
    config = parse_config(read_preset(name))
    assert config.run.description


@pytest.mark.parametrize("agents", sorted(CONFIG_KINDS))
def test_every_field_is_described(agents: str) -> None:
    bare = []
    schema = CONFIG_KINDS[agents].config.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        for field, facts in part.get("properties", {}).items():
            if not facts.get("description"):
                bare.append(f"{part['title']}.{field}")
    assert not bare
