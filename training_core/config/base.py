"""The base of every config section: frozen, strict about keys, documented field by field."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

Wording = Literal["words", "sentences"]
"""How an environment writes observations and reads answers."""


class Section(BaseModel):
    """A part of the run config. Field docstrings become form help, API schema and docs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    import_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name code of the user's own by import path: a server runs only what its owner has allowed."""
    file_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a file of the user's own: a server reads only what is in its data folder."""
    model_name_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a model: a server reads only models of the hub, of its model folders, and of checkpoints."""
    checkpoint_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a checkpoint: a server reads only those of runs that its person may see."""
    key_fields: ClassVar[Mapping[str, str]] = {}
    """Fields that name an environment variable with a key, each with the field of the addresses that it is sent to."""
    folder_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a folder to write to: a server writes only below folders that its owner has allowed."""

    @model_validator(mode="before")
    @classmethod
    def _parts_have_a_type(cls, tree: Any) -> Any:
        """A part that comes in several kinds, and does not say which one it is, is of the default kind."""
        if not isinstance(tree, Mapping):
            return tree
        kinds = {name: getattr(field.default, "type", None) for name, field in cls.model_fields.items()}
        return {
            name: {"type": kinds[name], **part}
            if kinds.get(name) and isinstance(part, Mapping) and "type" not in part
            else part
            for name, part in tree.items()
        }


class EnvironmentSection(Section):
    """What every environment's config says of the team."""

    roles: ClassVar[tuple[str, ...]] = ()
    """Who plays it; a team has exactly these, unless open_roles says otherwise."""
    open_roles: ClassVar[bool] = False
    """Whether any roles may play, as many as there are; `roles` then names the usual ones."""
    role_preset: ClassVar[str] = ""
    """A preset with these roles, to start from; empty where there is none to name."""

    @property
    def answers_at_a_time(self) -> int:
        """Answers that one process tries at a time: above 1 where trying means waiting for other processes."""
        return 1


def _writable(table: dict[str, Any]) -> dict[str, Any]:
    """Nothing that TOML, in which runs are kept, or a dotted path, by which fields are set, cannot say."""
    for name, value in table.items():
        if not name or "." in name:
            raise ValueError(
                f"the name {name!r} must have letters and no dots: fields are set by dotted paths"
            )
        _no_null(name, value)
    return table


def _no_null(name: str, value: Any) -> None:
    if value is None:
        raise ValueError(
            f"{name} is null, which a run's TOML file cannot hold; leave it out, or give a word for it"
        )
    if isinstance(value, dict):
        _writable(value)
    elif isinstance(value, list):
        for item in value:
            _no_null(name, item)


Arguments = Annotated[dict[str, Any], AfterValidator(_writable)]
"""Keyword arguments for code of the user's own."""
