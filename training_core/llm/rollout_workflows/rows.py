"""The data of a task that is passed to a workflow."""

from typing import Any

REWARD_ARGUMENTS = ("prompt", "completions", "prompt_ids", "completion_ids")
"""Arguments that AReaL's reward functions receive by name, in addition to **data."""


class RowData(dict[str, Any]):
    """A row in which all columns can be read, but `**row` omits those that a reward function receives by name.

    AReaL's workflows call `reward_fn(prompt=..., completions=..., **data)`; a row with a column `prompt` would pass
    it twice.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in row.items() if name not in REWARD_ARGUMENTS})
        self._hidden = {name: value for name, value in row.items() if name in REWARD_ARGUMENTS}

    def __missing__(self, name: str) -> Any:
        return self._hidden[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._hidden

    def get(self, name: str, default: Any = None) -> Any:
        """As dict.get, including the hidden columns."""
        return self._hidden.get(name, super().get(name, default))
