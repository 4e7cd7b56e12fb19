"""Documents of the REST API: what it answers and what it accepts, one module per noun.

A document is the only list of its fields: the server's answer, the OpenAPI schema, the page and the table of a command come from it.
"""

from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item")
Count = Annotated[int, Field(ge=0, lt=10**18)]
"""A number that the database can store."""


def omitted(description: str = "") -> Any:
    """Return the definition of a field that is left out of the document if it is None."""
    return Field(None, exclude_if=lambda value: value is None, description=description or None)


class Document(BaseModel):
    """What the API answers."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="strings",
        json_schema_serialization_defaults_required=True,
        serialize_by_alias=True,
        validate_by_name=True,
    )
    columns: ClassVar[dict[str, str]] = {}
    """Heading -> field, of the tables that commands print."""

    @classmethod
    def of_row(cls, row: Any, **others: Any) -> Self:
        """Return the document of a row: fields that are not in `others` are its attributes of the same name."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields.keys() - others.keys()}, **others)


class Body(BaseModel):
    """What the API accepts. An unknown key is refused: a misspelled one must not start something else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Results(Document, Generic[Item]):
    """A list."""

    results: list[Item]

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Return the name in the OpenAPI schema, such as ArtifactResults."""
        return f"{params[0].__name__}{cls.__name__}"


class Page(Results[Item], Generic[Item]):
    """Part of a list, with the addresses of the parts before and after it."""

    next: str | None
    previous: str | None
