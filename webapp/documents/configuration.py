"""Tables of the run config's fields, made from its classes for the page docs/reference/configuration.md."""

import re
from typing import Any

from pydantic import BaseModel

from training_core.config.base import classes_below, section_classes
from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig

CONFIGS: dict[str, type[BaseModel]] = {"RunConfig": RunConfig, "MarlConfig": MarlConfig}
MARK = re.compile(r"^<!-- fields of (\w+) -->\n", re.MULTILINE)
NAMES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
SIGNS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "maxLength": "length ≤",
}


def with_fields(markdown: str) -> str:
    """Return a page with a table of each section in place of <!-- fields of CONFIG -->."""
    return MARK.sub(
        lambda mark: "\n".join(_section(*part) for part in classes_below(CONFIGS[mark[1]])), markdown
    )


def _section(path: str, model: type[BaseModel]) -> str:
    schema, path = model.model_json_schema(), path.replace("*", "<name>")
    tag = schema["properties"].get("type", {})
    kind = tag.get("const") or ("enum" in tag and tag.get("default"))
    title = f'## `[{path}]` with `type = "{kind}"`' if kind else f"## `[{path}]`"
    rows = [
        f"| `{name}` | {_type(facts)} | {_default(name, facts, schema)} | {_cell(facts['description'])} |"
        for name, facts in schema["properties"].items()
        if not section_classes(model.model_fields[name].annotation)
    ]
    table = ["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""] if rows else []
    return "\n".join([title, "", _cell(str(schema.get("description", ""))), "", *table])


def _type(facts: dict[str, Any]) -> str:
    if "const" in facts:
        return f'`"{facts["const"]}"`'
    if "enum" in facts:
        return ", ".join(f'`"{value}"`' for value in facts["enum"])
    if "anyOf" in facts:
        return ", ".join(_type(part) for part in facts["anyOf"])
    bounds = [f"{sign} {facts[key]:.12g}" for key, sign in SIGNS.items() if key in facts]
    return NAMES.get(facts["type"], "list") + (f" ({', '.join(bounds)})" if bounds else "")


def _default(name: str, facts: dict[str, Any], schema: dict[str, Any]) -> str:
    if name in schema.get("required", []):
        return "required"
    value = facts["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
