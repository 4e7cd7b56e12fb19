"""The form's fields, generated from the run config's JSON schema and a tree of values."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import tomlkit

from training_core.config.experiment import ExperimentConfig
from training_core.config.kinds import config_kind
from webapp.agents.registry import agent_pages
from webapp.common.formats import NONE
from webapp.documents.rendering import anchor_of, document_get
from webapp.runs.configs import LABELS

Schema = Mapping[str, Any]
LONG_TEXT = 500
"""Length above which a text field has several lines."""


@dataclass(frozen=True)
class Field:
    """One value of the config."""

    path: str
    """Dotted: algorithm.clip_low."""
    label: str
    help: str
    kind: str
    """bool, int, float, choice, list, text, long, model (a base model's name), or table: arbitrary names and values."""
    value: Any
    preset: Any
    """The preset's value, defaults included; the default if the preset has no such part."""
    choices: tuple[Any, ...] = ()
    """Texts, or numbers."""
    reshapes: bool = False
    """Whether another choice changes the fields of its section."""
    minimum: float | None = None
    maximum: float | None = None
    error: str = ""
    docs: str = ""
    """Anchor of its row in the documentation."""

    @property
    def id(self) -> str:
        """The id of its input element."""
        return "f-" + self.path.replace(".", "-")

    @property
    def changed(self) -> bool:
        """Whether it is a setting that differs from the preset; an empty text equals a missing value."""
        return (
            self.path not in LABELS
            and bool(self.value != self.preset)
            and (self.value, self.preset) != ("", None)
        )

    @property
    def shown(self) -> str:
        """The value as the text of its input."""
        return spell(self.value)

    @property
    def preset_shown(self) -> str:
        """The preset's value as text."""
        return spell(self.preset) or NONE


@dataclass(frozen=True)
class FormSection:
    """A group of fields with its subsections."""

    path: str
    title: str
    help: str
    docs: str = ""
    """Anchor in docs/reference/configuration.md."""
    fields: list[Field] = field(default_factory=list)
    sections: list["FormSection"] = field(default_factory=list)

    def walk(self) -> Iterator[Field]:
        """Yield all fields, including those of subsections."""
        yield from self.fields
        for section in self.sections:
            yield from section.walk()

    @property
    def changed(self) -> int:
        """Number of fields that differ from the preset."""
        return sum(field.changed for field in self.walk())

    @property
    def wrong(self) -> int:
        """Number of fields with an error."""
        return sum(bool(field.error) for field in self.walk())


def _docs_anchor(path: str, kind: str) -> str:
    """Return the anchor of a section, whose heading names its type if it has several (webapp/documents/configuration.py)."""
    path = re.sub(r"^(policies|team\.roles)\.[^.]+", r"\1.<name>", path)
    return anchor_of(f'[{path}] with type = "{kind}"' if kind else f"[{path}]")


@cache
def run_schema(kind: type[ExperimentConfig]) -> Schema:
    """Return the JSON schema of a kind of config, cached: it takes longer than the rest of the form."""
    return kind.model_json_schema()


def _stands_between_commas(text: str) -> bool:
    return bool(text) and text == text.strip() and not set(text) & set(",[\n\r")


def spell(value: Any) -> str:
    """Return a value as text: lists with commas, or as TOML if an item would be split or quoted; tables as TOML."""
    if isinstance(value, Mapping):
        return tomlkit.dumps(value).strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        plain = all(_stands_between_commas(item) for item in value if isinstance(item, str))
        return ", ".join(spell(item) for item in value) if plain else str(tomlkit.item(value).as_string())
    return "" if value is None else str(value)


def config_sections(
    tree: Mapping[str, Any], preset: Mapping[str, Any], errors: Mapping[str, str]
) -> list[FormSection]:
    """Return the whole form: one section per part of the config. `tree` and `preset` are resolved, with all defaults."""
    schema = run_schema(config_kind(tree).config)
    reader = _Reader(schema["$defs"], preset, tuple(tree.get("policies") or ()), not agent_pages(tree).tokens)
    sections = [reader.section(name, part, tree.get(name)) for name, part in schema["properties"].items()]
    filed = file_errors(errors, [field.path for section in sections for field in section.walk()])
    return [_with_errors(section, filed) for section in sections]


def file_errors(errors: Mapping[str, str], paths: list[str]) -> dict[str, str]:
    """Return errors by field: an error of `betas.0` belongs to `betas`; others keep their path.

    A union's tag in a path (algorithm.at_grpo.clip_low) is removed.
    """
    known = set(paths)
    return {_nearest(path, known): text for path, text in errors.items()}


def _nearest(path: str, known: set[str]) -> str:
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        head = parts[:end]
        candidates = [head, *(head[:gap] + head[gap + 1 :] for gap in range(1, len(head) - 1))]
        for candidate in candidates:
            if ".".join(candidate) in known:
                return ".".join(candidate)
    return path


def _with_errors(section: FormSection, errors: Mapping[str, str]) -> FormSection:
    return replace(
        section,
        fields=[replace(field, error=errors.get(field.path, "")) for field in section.fields],
        sections=[_with_errors(below, errors) for below in section.sections],
    )


@dataclass(frozen=True)
class _Reader:
    """Walks the schema and the values together."""

    definitions: Schema
    preset: Mapping[str, Any]
    policies: tuple[str, ...]
    networks: bool
    """Whether the fields are those of small networks, which the documentation describes after those of language models."""

    def section(self, path: str, schema: Schema, value: Any) -> FormSection:
        """Return the section at `path`; a table of named parts has a section per name."""
        shape = self._shape(schema, value)
        title = path.rsplit(".", 1)[-1].replace("_", " ")
        kind = value.get("type", "") if isinstance(value, Mapping) else ""
        help_text = schema.get("description", shape.get("description", ""))
        result = FormSection(path, title, help_text, self._docs_anchor(path, kind))
        types = tuple(schema.get("discriminator", {}).get("mapping", ()))
        for name, part in self._parts(shape, value):
            below = f"{path}.{name}"
            inner = value.get(name, part.get("default")) if isinstance(value, Mapping) else None
            if self._is_section(part, inner):
                result.sections.append(self.section(below, part, inner))
            else:
                result.fields.append(
                    self._field(below, result.docs, part, inner, types if name == "type" else ())
                )
        return result

    def _docs_anchor(self, path: str, kind: str) -> str:
        """Return the anchor of a section in the documentation; of two with the same heading, the second one is of networks."""
        anchor = _docs_anchor(path, kind)
        document = document_get("configuration") if self.networks else None
        again = document is not None and any(heading.anchor == f"{anchor}-1" for heading in document.headings)
        return f"{anchor}-1" if again else anchor

    def _parts(self, shape: Schema, value: Any) -> Iterator[tuple[str, Schema]]:
        if "properties" in shape:
            yield from shape["properties"].items()
        else:
            yield from ((name, shape["additionalProperties"]) for name in value or {})

    def _is_section(self, schema: Schema, value: Any) -> bool:
        shape = self._shape(schema, value)
        others = shape.get("additionalProperties")
        lists = isinstance(others, Mapping) and others.get("type") == "array"
        return shape.get("type") == "object" and others is not True and not lists

    def _shape(self, schema: Schema, value: Any) -> Schema:
        """Return the schema behind references; of a union, the member with the value's `type`."""
        if "$ref" in schema:
            return self._shape(self.definitions[schema["$ref"].rsplit("/", 1)[-1]], value)
        if "discriminator" in schema:
            mapping = schema["discriminator"]["mapping"]
            kind = value.get("type") if isinstance(value, Mapping) else None
            member = kind if isinstance(kind, str) and kind in mapping else next(iter(mapping))
            return self._shape({"$ref": mapping[member]}, value)
        return schema

    def _field(self, path: str, docs: str, schema: Schema, value: Any, types: tuple[str, ...]) -> Field:
        """Return the field at `path` of a section with the anchor `docs`."""
        kind, choices = self._kind(path, schema)
        name = path.rpartition(".")[2]
        before = value_at(self.preset, path)
        return Field(
            path=path,
            label=name.replace("_", " "),
            docs=f"{docs}--{anchor_of(name)}",
            help=schema.get("description", ""),
            kind=kind,
            value=value,
            preset=schema.get("default") if before is None else before,
            choices=types or choices,
            reshapes=len(types) > 1,
            minimum=schema.get("minimum", schema.get("exclusiveMinimum")),
            maximum=schema.get("maximum", schema.get("exclusiveMaximum")),
        )

    def _kind(self, path: str, schema: Schema) -> tuple[str, tuple[Any, ...]]:
        if path.endswith(".policy"):
            return "choice", self.policies
        if path.startswith("policies.") and path.endswith(".model"):
            return "model", ()
        if "anyOf" in schema:  # a number or a word: the first one decides
            return self._kind(path, schema["anyOf"][0])
        if "enum" in schema:
            return "choice", tuple(schema["enum"])
        if "const" in schema:
            return "choice", (schema["const"],)
        plain = {"boolean": "bool", "integer": "int", "number": "float", "array": "list", "object": "table"}
        kind = plain.get(schema.get("type", ""))
        if kind:
            return kind, ()
        return ("long" if schema.get("maxLength", 0) > LONG_TEXT or path.endswith(".prompt") else "text"), ()


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path; None if it is missing."""
    here: Any = tree
    for name in path.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here
