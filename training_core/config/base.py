"""The base of every config section: frozen, strict about keys, documented field by field."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the run config. Field docstrings become form help, API schema and docs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
