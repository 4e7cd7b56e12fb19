"""Descriptions of the presets in the gallery."""

from dataclasses import dataclass

from training_core.config.files import read_gallery


@dataclass(frozen=True)
class Expected:
    """Purpose of a preset in one line, with expected time and result: the table [gallery] of its file, without `position`."""

    task: str
    """The task; presets of one task are listed together."""
    purpose: str
    time: str
    """Duration, and on which machine."""
    result: str
    """Final values of metrics."""


def expected_of(preset: str) -> Expected | None:
    """The description of a preset; None if its file has none."""
    table = read_gallery(preset)
    return Expected(table["task"], table["purpose"], table["time"], table["result"]) if table else None


def has_words(text: str, wanted: str) -> bool:
    """Whether every word of `wanted` occurs in the text, ignoring case."""
    return all(word in text.casefold() for word in wanted.casefold().split())


def searched_text(name: str, description: str, agents: str) -> str:
    """The text in which a preset is searched; `agents` is the kind of agents in words."""
    about = expected_of(name)
    return " ".join([name, description, agents, about.task if about else "", about.purpose if about else ""])
