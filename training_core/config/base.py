"""The base of every config section: frozen, strict about keys, with a description per field."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from training_core.errors import InvalidValue

Wording = Literal["words", "sentences"]
"""How an environment formats observations and parses answers."""

Checked = TypeVar("Checked", bound="Section")
FIELDS_ONLY = {"fields_only": True}
"""Validation context in which sections are built without their cross-field checks (config/errors.py)."""


def cross_field(check: Callable[[Checked], Checked]) -> Any:
    """Decorate a method of a section that compares several valid fields. It raises ValueError, "path: text", and returns self."""

    def checked(section: Checked, info: ValidationInfo) -> Checked:
        return section if info.context == FIELDS_ONLY else check(section)

    checked.__name__, checked.__doc__ = check.__name__, check.__doc__
    checked.of_section = check  # type: ignore[attr-defined]
    return model_validator(mode="after")(checked)


class Section(BaseModel):
    """A part of the run config. Field docstrings are used as form help, API schema and documentation."""

    # deferred: most sections are validated only as a part of another one, whose validator includes theirs
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, defer_build=True)
    import_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name custom code by import path: a server runs only packages that its owner has allowed."""
    file_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a file: a server reads only files in its data folder."""
    model_name_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a model: a server reads only models of the hub, of its model folders, or of checkpoints."""
    checkpoint_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a checkpoint: a server reads only those of runs that the user may see."""
    key_fields: ClassVar[Mapping[str, str]] = {}
    """Fields that name an environment variable with a key, each with the field of the addresses the key is sent to."""
    address_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name addresses: a run of a server reaches public ones, its own machine, and those that the owner has allowed."""
    folder_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name a folder to write to: a server writes only below folders that its owner has allowed."""
    effects: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    """Rules of the fields that have an effect only under a condition (config/effects.py)."""
    orders: ClassVar[Mapping[str, Callable[[Any], str]]] = {}
    """Rules of the fields that reverse or void what another one means if they pass it (config/effects.py)."""

    def modules(self) -> Iterator[tuple[str, str]]:
        """(field, module) of code that is named by its module alone: permitted like import paths."""
        return iter(())

    def addresses(self) -> Iterator[tuple[str, str, str]]:
        """(field, address, environment variable whose value is sent there, or an empty text) of all addresses."""
        variables = {addresses: getattr(self, field) for field, addresses in self.key_fields.items()}
        for field in dict.fromkeys((*self.address_fields, *variables)):
            value = getattr(self, field)
            for url in (value,) if isinstance(value, str) else value:
                if "://" in url:
                    yield field, url, variables.get(field, "")

    def programs(self) -> Iterator[tuple[str, str]]:
        """(field, what it names) of programs, folders and texts that may name one: a server does not accept them from a page."""
        return iter(())

    @model_validator(mode="before")
    @classmethod
    def _parts_have_a_type(cls, tree: Any) -> Any:
        """Give a part without a `type` the default type."""
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
    """What every environment's config declares: its type, and facts about the team."""

    roles: ClassVar[tuple[str, ...]] = ()
    """Roles of the environment; a team has exactly these, unless open_roles is true."""
    open_roles: ClassVar[bool] = False
    """Whether a team may have any number of roles with any names; `roles` then names the usual ones."""
    role_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that name roles of the team: a name, or a table by name."""
    role_preset: ClassVar[str] = ""
    """A preset with these roles to start from; empty if there is none."""
    task_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that define the tasks: they have an effect if this run reads tasks from the environment."""
    play_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that have an effect if this run steps the environment."""
    local_reward_fields: ClassVar[tuple[str, ...]] = ()
    """Rewards of single roles: without effect if algorithm.local_weight is 0."""
    team_reward_fields: ClassVar[tuple[str, ...]] = ()
    """Rewards of the team: without effect if algorithm.team_weight is 0."""
    player: ClassVar[str] = ""
    """Import path of the class that plays its tasks through the gateway, if the environment plays them itself."""
    sandboxed: ClassVar[bool] = False
    """Whether agents' code runs in a sandbox."""
    type: str
    """The environment."""

    @classmethod
    def fixed_roles(cls, section: Mapping[str, Any]) -> tuple[str, ...]:
        """Names that the environment looks for, with the fields in `section`: such a role cannot have another name."""
        return () if cls.open_roles else cls.roles

    @property
    def answers_at_a_time(self) -> int:
        """Answers that one process evaluates at a time: above 1 if evaluation waits for other processes."""
        return 1

    @property
    def reads_tokens(self) -> bool:
        """Whether the environment receives the token ids of answers, as SampledText."""
        return False


def _writable(table: dict[str, Any]) -> dict[str, Any]:
    """Refuse values that TOML, the storage format of runs, or a dotted field path cannot represent."""
    for name, value in table.items():
        if not name or "." in name:
            raise ValueError(
                f"the name {name!r} must have letters and no dots: fields are set by dotted paths"
            )
        _no_null(name, value)
    return table


def _no_null(name: str, value: Any) -> None:
    if value is None:
        raise InvalidValue(
            f"{name} is null, which a run's TOML file cannot hold",
            remedy="remove it, or use a string instead",
        )
    if isinstance(value, dict):
        _writable(value)
    elif isinstance(value, list):
        for item in value:
            _no_null(name, item)


Arguments = Annotated[dict[str, Any], AfterValidator(_writable)]
"""Keyword arguments for custom code."""
OptionalNumber = Annotated[
    FiniteFloat | None,
    BeforeValidator(lambda value: None if value in ("", "none") else value),
    WithJsonSchema({"type": "number"}),
]
"""A number or none; forms and command lines write none as an empty text or as "none", because TOML has no null."""


def _number_or_auto(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError as error:
        raise ValueError('give a whole number above 0, or "auto"') from error


NumberOrAuto = Annotated[
    Annotated[int, Field(ge=1)] | Literal["auto"],
    WrapValidator(_number_or_auto),
]
"""A number above 0, or "auto": then it follows from the devices."""


def one_of(configs: Mapping[str, type[Section]]) -> Any:
    """The type of a field with one of these classes, selected by `type`."""
    return Annotated[Union[tuple(configs.values())], Field(discriminator="type")]  # noqa: UP007


def parts(section: Section) -> Iterator[tuple[str, str, Any]]:
    """(field, dotted path, value) of the fields of a section; of a table of sections, those of its entries."""
    for name, value in section:
        if isinstance(value, Mapping) and any(isinstance(part, Section) for part in value.values()):
            yield from ((name, f"{name}.{key}", part) for key, part in value.items())
        else:
            yield name, name, value


def sections(section: Section, path: str = "", *, inner_first: bool = False) -> Iterator[tuple[str, Section]]:
    """The dotted path and the section of this section and all below it, in the config's order."""
    if not inner_first:
        yield path, section
    for _, below, value in parts(section):
        if isinstance(value, Section):
            yield from sections(value, f"{path}.{below}".lstrip("."), inner_first=inner_first)
    if inner_first:
        yield path, section


def section_classes(annotation: Any) -> list[type[BaseModel]]:
    """The sections of a field's type: itself, the members of a union, the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return [section for part in inner for section in section_classes(part)]


def classes_below(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The dotted path, with * for the names in a table, and the class of each possible section below a class of config."""
    for name, field in model.model_fields.items():
        below = f"{path}.{name}".lstrip(".") + (".*" if get_origin(field.annotation) is dict else "")
        for section in section_classes(field.annotation):
            yield below, section
            yield from classes_below(section, below)
