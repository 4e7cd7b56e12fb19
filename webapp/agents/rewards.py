"""The label of returns: an environment with rewards besides its goal has a shaped return, which can be high without success."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from training_core.config.run import is_shaped

RETURN = re.compile(r"\b(return)\b(?! \(shaped\))", re.IGNORECASE)


def return_label(config: Mapping[str, Any]) -> str:
    """Return "return", or "return (shaped)"."""
    return shaped_label("return", [config])


def shaped_label(label: str, configs: Iterable[Mapping[str, Any]]) -> str:
    """Return the label of a metric of runs with these configs: "eval/return (shaped)" if one of them has shaped rewards."""
    return (
        RETURN.sub(r"\1 (shaped)", label) if RETURN.search(label) and any(map(is_shaped, configs)) else label
    )
