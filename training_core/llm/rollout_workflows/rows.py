"""The data that a workflow gets of its task."""

from typing import Any

REWARD_ARGUMENTS = ("prompt", "completions", "prompt_ids", "completion_ids")
"""What AReaL's reward functions are given by name, beside **data."""


class RowData(dict[str, Any]):
    """A row whose columns can all be read, but `**row` leaves out those that a reward function is given by other means.

    AReaL's workflows call `reward_fn(prompt=..., completions=..., **data)`; a row that has a column `prompt` would give it twice.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in row.items() if name not in REWARD_ARGUMENTS})
        self._hidden = {name: value for name, value in row.items() if name in REWARD_ARGUMENTS}

    def __missing__(self, name: str) -> Any:
        return self._hidden[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._hidden

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dict, the hidden columns included."""
        return self._hidden.get(name, super().get(name, default))
