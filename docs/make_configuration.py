"""Write docs/configuration.md from the run config's own schema: `make docs`.

`python -m docs.make_configuration`; a test compares the page with what this makes.
"""

from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.environment_variables import GROUPS
from training_core.config.base import Section
from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig

PAGE = Path(__file__).with_name("configuration.md")
HEAD = """# Configuration

<!-- Made by `make docs` from training_core/config and docs/environment_variables.py: change those, not this page. -->

A run is one tree of sections. It is written as TOML; every field can be changed by its dotted path, in the form of the
new-experiment page, in a launch by REST (`"overrides": {"algorithm.clip_low": 0.1}`) and on the command line
(`troupe launch plan_path_duo algorithm.clip_low=0.1`). Unknown fields, wrong types and combinations that cannot work are
refused before anything is started, with one message per field.

`troupe presets` lists the presets; `GET /api/v1/schema/run/` is this page for programs.
Sections with a `type` choose one of several kinds by it.

"""

SMALL = """# Small networks

With `algorithm.type = "mappo"` or `"ippo"` the agents are [small networks](marl.md), and a run has these sections.

"""


def page() -> str:
    """The whole page."""
    return f"{HEAD}{_whole(RunConfig)}\n{SMALL}{_whole(MarlConfig)}\n{_environment()}"


def _whole(config: type[BaseModel]) -> str:
    return "\n".join(_section(title, model) for title, model in _sections("", config))


def _sections(path: str, model: type[BaseModel]) -> list[tuple[str, type[BaseModel]]]:
    """(dotted path, section class), in the order of the config; the root itself is left out."""
    found: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        for child in _classes(field.annotation):
            here = f"{path}{name}{'.<name>' if _is_mapping(field) else ''}"
            found.append((here, child))
            found.extend(_sections(f"{here}.", child))
    return found


def _classes(annotation: Any) -> list[type[BaseModel]]:
    """Section classes inside a field's type: itself, a union's members, a mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [found for part in get_args(annotation) for found in _classes(part)]


def _is_mapping(field: FieldInfo) -> bool:
    return getattr(field.annotation, "__origin__", None) is dict


def _section(path: str, model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    kind = schema["properties"].get("type", {}).get("const")
    title = f'## `[{path}]` with `type = "{kind}"`' if kind else f"## `[{path}]`"
    rows = [
        f"| `{name}` | {_type(facts)} | {_default(name, facts, schema)} | {_cell(facts['description'])} |"
        for name, facts in schema["properties"].items()
        if not _classes(model.model_fields[name].annotation)
    ]
    about = " ".join(str(schema.get("description", "")).split())
    table = ["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""] if rows else []
    return "\n".join([title, "", about, "", *table])


def _type(facts: dict[str, Any]) -> str:
    if "const" in facts:
        return f'`"{facts["const"]}"`'
    if "enum" in facts:
        return ", ".join(f'`"{value}"`' for value in facts["enum"])
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    return names.get(facts["type"], "list") + _bounds(facts)


def _bounds(facts: dict[str, Any]) -> str:
    signs = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "maxLength": "length ≤",
    }
    found = [f"{sign} {facts[key]:.12g}" for key, sign in signs.items() if key in facts]
    return f" ({', '.join(found)})" if found else ""


def _default(name: str, facts: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in schema.get("required", []):
        return "required"
    value = facts["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _environment() -> str:
    parts = ["## Environment variables", ""]
    for title, about, rows in GROUPS:
        parts += [f"### {title}", "", about, "", "| variable | default | meaning |", "|---|---|---|"]
        parts += [f"| `{name}` | {default or 'none'} | {_cell(text)} |" for name, default, text in rows]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
