"""A range of a pool's environments, for play in parallel with other play."""

from collections.abc import Mapping
from typing import TypeVar

from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import AnswersBySlot, EnvironmentPool, SlotView

Value = TypeVar("Value")


class SlotRange:
    """An EnvironmentPool whose slot 0 is the whole pool's slot `first`."""

    def __init__(self, pool: EnvironmentPool, first: int) -> None:
        self._pool = pool
        self._first = first

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        return self._from_pool(self._pool.reset(self._to_pool(tasks)))

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        return self._from_pool(self._pool.observe([slot + self._first for slot in slots], role))

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        return self._from_pool(self._pool.try_answers(self._to_pool(answers), role))

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        return self._from_pool(self._pool.commit(self._to_pool(chosen)))

    def _to_pool(self, by_slot: Mapping[int, Value]) -> dict[int, Value]:
        return {slot + self._first: value for slot, value in by_slot.items()}

    def _from_pool(self, by_slot: dict[int, Value]) -> dict[int, Value]:
        return {slot - self._first: value for slot, value in by_slot.items()}
