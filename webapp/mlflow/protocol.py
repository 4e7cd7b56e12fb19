"""MLflow's REST protocol: the arguments of a request, keys with values, times, and errors in its form."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from training_core.errors import TroupeError
from webapp.accounts.models import Project, User
from webapp.accounts.selectors import project_chosen
from webapp.common.searches import search_limited

MOST_ROWS = 5000
"""Rows of a page."""
MOST_BYTES = 1 << 20
"""Bytes of the parameters, of the tags, and of the data sets of a run or an experiment."""
Json = dict[str, Any]


class MlflowError(TroupeError):
    """An error with MLflow's code; its clients show the message."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code, self.status = code, status
        super().__init__(message)

    @classmethod
    def invalid(cls, message: str) -> "MlflowError":
        """An argument is wrong."""
        return cls("INVALID_PARAMETER_VALUE", message)

    @classmethod
    def unknown(cls, what: str) -> "MlflowError":
        """There is no such thing, or it is not visible to the user."""
        return cls("RESOURCE_DOES_NOT_EXIST", f"{what[:200]} does not exist, or you have no access", 404)


@dataclass(frozen=True)
class Call:
    """A request."""

    user: User
    arguments: Mapping[str, Any]
    slug: str = ""
    """Of the project in the address."""

    @property
    def project(self) -> Project:
        """The project of the address; without one the default of the user's runs. Raises Http404, PermissionDenied."""
        return project_chosen(self.user, self.slug)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an argument. Raises MlflowError if it is missing and has no default."""
        value = self.arguments.get(name, default)
        if not isinstance(value, str):
            raise MlflowError.invalid(f"{name}: a text is required")
        return value

    @property
    def run_id(self) -> str:
        """The id of a run, by either of its names; empty if there is none."""
        return self.text("run_id", self.text("run_uuid", ""))

    def items(self, name: str) -> list[Any]:
        """Return a list; a single parameter of a query is a list of one."""
        value = self.arguments.get(name) or []
        return value if isinstance(value, list) else [value]

    def page(self, rows: Any, most: int = MOST_ROWS) -> tuple[list[Any], Json]:
        """Return the rows of the page, and the part of the response with the token of the next one."""
        try:
            size = int(self.arguments.get("max_results") or most)
            start = int(self.arguments.get("page_token") or 0)
        except (TypeError, ValueError):
            size = start = -1
        if size < 1 or not 0 <= start < 2**31:
            raise MlflowError.invalid(
                "max_results is a positive number, and page_token is the value of next_page_token"
            )
        size = min(size, most)
        with search_limited():
            some = list(rows[start : start + size + 1])
        return some[:size], {"next_page_token": str(start + size)} if len(some) > size else {}


Function = Callable[[Call], Json]
Operations = dict[tuple[str, str], Function]
"""(method, name) -> function."""


def pairs(items: Mapping[str, str]) -> list[Json]:
    """Return MLflow's list of keys and values."""
    return [{"key": key, "value": value} for key, value in items.items()]


def unpaired(items: Iterable[Any]) -> dict[str, str]:
    """Inverse of `pairs`. Raises MlflowError."""
    try:
        return {str(item["key"]): str(item.get("value", "")) for item in items}
    except (TypeError, KeyError, AttributeError):
        raise MlflowError.invalid("params and tags are lists of objects with key and value") from None


def bounded(stored: Any, what: str) -> Any:
    """Return what is to be stored. Raises MlflowError if it is too large."""
    if len(orjson.dumps(stored)) > MOST_BYTES:
        raise MlflowError.invalid(f"{what} have at most {MOST_BYTES:,} bytes together; log less, or a file")
    return stored


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters; one that is too long ends with a digest, so that different texts stay different."""
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: most - 9]}~{digest}"


def milliseconds(moment: datetime) -> int:
    """Return the milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def moment_of(value: Any) -> datetime:
    """Inverse of `milliseconds`. Raises MlflowError."""
    try:
        return datetime.fromtimestamp(float(value) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise MlflowError.invalid(f"{value!r} is not a time in milliseconds since the epoch") from None
