"""What a server lets configs name: code of allowed packages, files of its data folder."""

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from training_core.config.base import Section
from training_core.config.files import load_config, parse_config
from training_core.config.permitted import check_permitted, named
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from training_core.importing import IMPORT_PATH

REWARD = {"environment.type": "dataset", "environment.path": "x.jsonl", "environment.reward.type": "custom"}
SINGLE = {"team": {"roles": {"solver": {"policy": "p"}}}, "policies": {"p": {}}}
EVERYWHERE = {
    **SINGLE,
    "team": {"roles": {"solver": {"policy": "p", "agent": {"path": "mine.agents:ask"}}}},
    "environment": {"type": "custom", "path": "mine.worlds:World"},
    "workflow": {"type": "custom", "path": "mine.play:play"},
}


def test_code_is_found_wherever_a_config_names_it() -> None:
    assert dict(named(parse_config(EVERYWHERE), "import_fields")) == {
        "team.roles.solver.agent.path": "mine.agents:ask",
        "environment.path": "mine.worlds:World",
        "workflow.path": "mine.play:play",
    }
    assert not dict(named(load_config("plan_path_duo"), "import_fields"))


def test_every_package_must_be_allowed_by_its_owner() -> None:
    config = parse_config(EVERYWHERE)
    with pytest.raises(ConfigError) as caught:
        check_permitted(config, [])
    assert set(caught.value.fields) == {"team.roles.solver.agent.path", "environment.path", "workflow.path"}
    assert "the server's owner can add it to TROUPE_IMPORT_PACKAGES" in caught.value.fields["workflow.path"]
    for packages in (["min"], ["mine.worlds", "mine.play"], ["minetoo"], ["mine.play:play"]):
        with pytest.raises(ConfigError):
            check_permitted(config, packages)
    check_permitted(config, ["other", "mine"])
    check_permitted(config, ["mine.worlds", "mine.play", "mine.agents"])


@pytest.mark.parametrize("path", ["/etc/passwd", "../secrets.jsonl", "a/../../b", "~/x.jsonl"])
def test_data_lies_in_the_servers_data_folder(path: str) -> None:
    config = parse_config({**SINGLE, "environment": {"type": "dataset", "path": path}})
    with pytest.raises(ConfigError, match="outside the server's data folder"):
        check_permitted(config, [])
    check_permitted(parse_config({**SINGLE, "environment": {"type": "dataset", "path": "a/b.jsonl"}}), [])


def sections(model: type[BaseModel]) -> set[type[Section]]:
    """Every section that a config may be made of."""
    found: set[type[Section]] = set()
    waiting: list[Any] = [model]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Section):
            if kind not in found:
                found.add(kind)
                waiting += [field.annotation for field in kind.model_fields.values()]
        else:
            waiting += [each for each in get_args(kind) if each is not kind]
    return found


def test_no_field_takes_an_import_path_without_being_guarded() -> None:
    seen = []
    for section in sections(RunConfig):
        for name, field in section.model_fields.items():
            patterns = [getattr(each, "pattern", None) for each in field.metadata]
            if any(pattern and ":" in str(pattern) for pattern in patterns):
                seen.append((section.__name__, name))
                assert name in section.import_fields, (section.__name__, name)
    assert len(seen) >= 5 and IMPORT_PATH
