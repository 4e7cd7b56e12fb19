"""The documentation against the source: made pages are fresh; names, links, commands and quoted messages exist."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT, modules
from tests.docs.variables import INTERNAL, container_variables, documented_variables
from training_core.config.experiment import ExperimentConfig
from training_core.config.files import load_config, parse_overrides, preset_names
from training_core.config.marl import MarlConfig
from training_core.config.rollout import WORKFLOW_CONFIGS
from training_core.config.run import ENVIRONMENT_CONFIGS, RunConfig
from training_core.marl.algorithms.registry import MARL_ALGORITHM_CONFIGS
from training_core.marl.environments.config import SuperSuit
from training_core.marl.environments.registry import MARL_ENVIRONMENT_CONFIGS
from training_core.marl.networks.registry import NETWORK_CONFIGS
from webapp.documents.configuration import with_fields

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(path for name in ("docs", "docker", "examples") for path in (ROOT / name).rglob("*.md")),
    ]
)
TEXT = "\n".join(with_fields(path.read_text()) for path in PAGES)
COMMANDS = TEXT.replace("\\\n", " ")
"""Pages with continued lines joined."""
NAME = re.compile(r"\"((?:TROUPE|RAY)_[A-Z_]+|DATABASE_URL|REDIS_URL|OMP_NUM_THREADS)\"")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def named(path: Path) -> str:
    """A page's path, for the names of tests."""
    return str(path.relative_to(ROOT))


@cache
def anchors(path: Path) -> set[str]:
    """Where `#...` may lead in a page: its headings, as they are turned into ids on the web."""
    headings = re.findall(r"^#+ (.+)$", with_fields(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sources() -> str:
    """All code as one text, with strings that go on in the next line joined, and causes with their remedies."""
    text = "\n".join(path.read_text() for path in [*modules().values(), ROOT / "Makefile"])
    return re.sub(r"\"\n\s*f?\"", "", re.sub(r"(?<![.:])[\"'],\s*remedy=f?[\"']", "; ", text))


@pytest.mark.parametrize("config", [RunConfig, MarlConfig])
def test_the_configuration_page_has_every_field(config: type[ExperimentConfig]) -> None:
    page = with_fields((ROOT / "docs/reference/configuration.md").read_text())
    rows = set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \| (.+) \|$", page, re.MULTILINE))
    fields = {
        (name, " ".join(facts["description"].split()).replace("|", "\\|"))
        for section in config.model_json_schema()["$defs"].values()
        for name, facts in section["properties"].items()
        if not is_section(facts)
    }
    assert len(fields) > 150 and fields <= rows, fields - rows


def is_section(facts: dict[str, Any]) -> bool:
    """Whether the schema of a field is that of a section or of a table of sections, which have headings."""
    below = facts.get("additionalProperties")
    return bool({"$ref", "oneOf"} & (facts.keys() | set(below if isinstance(below, dict) else ())))


def test_every_environment_variable_is_documented_and_read() -> None:
    read = {name for path in modules().values() for name in NAME.findall(path.read_text())}
    assert read - INTERNAL == documented_variables()


def test_pages_name_no_variable_that_nobody_reads() -> None:
    known = documented_variables() | container_variables() | INTERNAL
    assert set(re.findall(r"TROUPE_[A-Z_]+[A-Z]", TEXT)) <= known


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target, anchor in LINK.findall(path.read_text()):
        there = path.parent / target if target else path
        assert there.exists(), f"{named(path)} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{named(path)} links to {target}#{anchor}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if page.name != "README.md" and f"]({page})" not in index]


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_files_that_pages_name_exist(path: Path) -> None:
    prefix = r"`((?:training_core|workers|webapp|tests|templates|static|docker|docs|examples)/[\w./-]+\w)/?`"
    for name in re.findall(prefix, path.read_text()):
        written_by_the_reader = name.endswith(".env")
        assert written_by_the_reader or (ROOT / name).exists(), f"{named(path)} names {name}"


def test_functions_of_the_reading_order_exist() -> None:
    rows = re.findall(r"\| `([\w/]+\.py)`: (.+) \|", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(rows) > 5
    for path, names in rows:
        defined = re.findall(r"def (\w+)\(", (ROOT / path).read_text())
        assert set(re.findall(r"`(\w+)`", names)) <= set(defined), path


def test_targets_of_make_on_the_pages_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {name for group in targets for name in group.split()}
    assert set(re.findall(r"`make ([a-z-]+)", TEXT)) <= targets


def test_overrides_on_the_pages_are_accepted() -> None:
    lines = re.findall(r"troupe (?:launch|run) (\w+) ([^\n`#]+)", COMMANDS)
    assert lines
    for preset, words in lines:
        assert preset in preset_names()
        load_config(preset, parse_overrides([word for word in words.split() if not word.startswith("-")]))


def test_every_preset_is_in_the_table_of_environments() -> None:
    table = (ROOT / "docs/train/environments.md").read_text().split("Measured results")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(preset_names())


def test_fields_that_pages_name_exist() -> None:
    """Dotted paths in backticks, `*` standing for any role or policy: of language-model runs, or of small networks'."""
    trees = [language_fields(), small_network_fields()]
    for path in re.findall(r"`([a-z_]+(?:\.(?:\*|[a-z_]+))+)(?: = [^`]*)?`", TEXT):
        if path.split(".")[0] not in trees[0] or path.endswith((".md", ".py")):
            continue
        assert any(has_field(tree, path.split(".")) for tree in trees), f"no field {path}"


def language_fields() -> dict[str, Any]:
    """A config with the fields of every kind of environment and workflow."""
    config = load_config("plan_path_duo").model_dump(mode="json")
    for part, kinds in (("workflow", WORKFLOW_CONFIGS), ("environment", ENVIRONMENT_CONFIGS)):
        for section in kinds.values():
            config[part] |= dict.fromkeys(section.model_fields)
    return config


def small_network_fields() -> dict[str, Any]:
    """A config with the fields of every kind of environment, network and algorithm."""
    team = {"roles": {"agents": {"policy": "one"}}}
    config = MarlConfig.model_validate({"team": team, "policies": {"one": {}}}).model_dump(mode="json")
    for section in MARL_ENVIRONMENT_CONFIGS.values():
        config["environment"] |= dict.fromkeys(section.model_fields)
    for algorithm in MARL_ALGORITHM_CONFIGS.values():
        config["algorithm"] |= dict.fromkeys(algorithm.model_fields)
    config["environment"]["supersuit"] = dict.fromkeys(SuperSuit.model_fields)
    for network in NETWORK_CONFIGS.values():
        config["policies"]["one"]["network"] |= dict.fromkeys(network.model_fields)
    return config


def has_field(tree: Any, names: list[str]) -> bool:
    """Whether a dotted path leads somewhere."""
    if not names:
        return True
    if not isinstance(tree, dict):
        return False
    below = list(tree.values())[:1] if names[0] == "*" else [tree[names[0]]] if names[0] in tree else []
    return any(has_field(part, names[1:]) for part in below)


def test_messages_that_troubleshooting_quotes_are_said() -> None:
    """Quoted sentences in the first column of its tables; … stands for anything."""
    text = sources()
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs/operate/troubleshooting.md").read_text(), re.MULTILINE)
    quoted = [words for row in rows for words in re.findall(r"`([^`]+ [^`]+)`", row)]
    assert len(quoted) > 10
    for words in quoted:
        for part in filter(None, (part.strip() for part in words.split("…"))):
            assert part in text, f"nothing says {part!r}"


def test_tests_that_the_page_on_reliability_names_exist() -> None:
    named = re.findall(r"`(tests/\S+/test_\w+\.py)`", (ROOT / "docs/operate/reliability.md").read_text())
    assert len(named) > 60
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_readme_describes_the_demonstration_as_it_is() -> None:
    readme = (ROOT / "README.md").read_text()
    config = load_config("plan_path_duo")
    assert f"{config.rollout.group_size} candidates from the same state" in readme
    assert f"{config.run.iterations} iterations of {config.rollout.tasks} tasks" in readme
    assert f"Every {config.evaluation.every} iterations {config.evaluation.episodes} held-out tasks" in readme
    longest = config.team.roles["planner"].sampling.max_tokens
    assert f"| {longest} is enough for `tiny`" in (ROOT / "docs/start/getting-started.md").read_text()
