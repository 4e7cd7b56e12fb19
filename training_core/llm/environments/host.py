"""Many environments behind one object, by slot number: what an environment worker is.

One environment that raises never hurts its neighbours: its slot carries an error until it is reset.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from training_core.config.base import Section
from training_core.errors import EnvironmentFailure
from training_core.llm.environments.base import Split, StepResult, TextEnvironment
from training_core.llm.environments.registry import ENVIRONMENTS
from training_core.types import Message


@dataclass(frozen=True)
class SlotView:
    """What is to be known of one slot."""

    task_id: str = ""
    title: str = ""
    observation: str = ""
    messages: tuple[Message, ...] = ()
    """The same as a conversation, where the environment gives one."""
    """What the role that was asked for sees; empty after reset and commit."""
    silent: bool = False
    """It is not the turn of the role that was asked for."""
    board: dict[str, Any] | None = None
    done: bool = False
    success: bool = False
    role_success: Mapping[str, bool] = field(default_factory=dict)
    """By role, where the environment reports it."""
    outcome: str = ""
    error: str = ""
    """The environment raised; the slot is of no use until it is reset."""


Said = Mapping[int, Sequence[str | None]]
"""By slot: answers to try, each on a copy of its own; None says nothing."""


class EnvironmentPool(Protocol):
    """Environments by slot: here, or spread over workers."""

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start tasks: slot -> (task number, split)."""
        ...

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """What a role sees in these slots."""
        ...

    def try_answers(self, answers: Said, role: str) -> dict[int, list[StepResult] | str]:
        """Step one copy of a slot's state per answer (None says nothing); the error text where that raised."""
        ...

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Carry on the copy that took the answer of this index; the others are dropped."""
        ...


_Tried = tuple[TextEnvironment, StepResult] | str
"""A copy and what an answer did to it; or the error."""


class EnvironmentHost:
    """An EnvironmentPool in this process."""

    def __init__(self, section: Section, seed: int) -> None:
        self._make: Callable[[], TextEnvironment] = lambda: ENVIRONMENTS[section.type](section, seed)  # type: ignore[attr-defined]
        self._make()  # data that cannot be read is told now, not episode by episode
        self._concurrency = int(getattr(section, "answers_at_a_time", 1))
        self._states: dict[int, TextEnvironment] = {}
        self._copies: dict[int, list[TextEnvironment]] = {}
        self._errors: dict[int, str] = {}

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start tasks; what the slots held before is gone."""
        views = {}
        for slot, (task, split) in tasks.items():
            self._errors.pop(slot, None)
            self._copies.pop(slot, None)
            views[slot] = self._guarded(slot, partial(self._start, slot, task, split))
        return views

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """What a role sees in these slots."""
        return {slot: self._guarded(slot, partial(self._view, slot, role)) for slot in slots}

    def try_answers(self, answers: Said, role: str) -> dict[int, list[StepResult] | str]:
        """Step copies; several at a time where that means waiting for other processes."""
        tries = [(slot, text) for slot, texts in answers.items() for text in texts]
        tried: Iterable[_Tried]
        if self._concurrency > 1:
            with ThreadPoolExecutor(self._concurrency) as threads:
                tried = list(threads.map(lambda each: self._try(each[0], role, each[1]), tries))
        else:
            tried = (self._try(slot, role, text) for slot, text in tries)
        found: dict[int, list[_Tried]] = {slot: [] for slot in answers}
        for (slot, _), each in zip(tries, tried, strict=True):
            found[slot].append(each)
        return {slot: self._judged(slot, each) for slot, each in found.items()}

    def _try(self, slot: int, role: str, text: str | None) -> _Tried:
        try:
            copy = self._states[slot].copy()
            step = _act(copy, role, text)
            check_rewards([step])
        except Exception as error:
            return describe(error)
        return copy, step

    def _judged(self, slot: int, tried: list[_Tried]) -> list[StepResult] | str:
        """A slot's results; its copies are kept. The first error is the slot's."""
        failed = next((each for each in tried if isinstance(each, str)), None)
        if failed is not None:
            self._errors[slot] = failed
            return failed
        kept = [each for each in tried if not isinstance(each, str)]
        self._copies[slot] = [copy for copy, _ in kept]
        return [step for _, step in kept]

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Carry one copy on."""
        views = {}
        for slot, index in chosen.items():
            self._states[slot] = self._copies.pop(slot)[index]
            views[slot] = self._guarded(slot, partial(self._view, slot, ""))
        return views

    def _start(self, slot: int, task: int, split: Split) -> SlotView:
        self._states[slot] = self._make()
        self._states[slot].reset(task, split)
        return self._view(slot, "")

    def _view(self, slot: int, role: str) -> SlotView:
        if slot in self._errors:
            return SlotView(error=self._errors[slot], done=True, outcome="failed")
        state = self._states[slot]
        seen = state.observe(role) if role else ""
        messages = seen if isinstance(seen, tuple) else ()
        return SlotView(
            task_id=state.task_id,
            title=state.title,
            observation="\n".join(message["content"] for message in messages)
            if messages
            else str(seen or ""),
            messages=messages,
            silent=seen is None,
            board=state.board(),
            done=state.done,
            success=state.success,
            role_success=dict(getattr(state, "role_success", {})),
            outcome=state.outcome,
        )

    def _guarded(self, slot: int, view: Callable[[], SlotView]) -> SlotView:
        try:
            return view()
        except Exception as error:
            self._errors[slot] = describe(error)
            return SlotView(error=self._errors[slot], done=True, outcome="failed")


def _act(state: TextEnvironment, role: str, text: str | None) -> StepResult:
    """Take an answer; who says nothing changes nothing and earns nothing."""
    if text is None:
        return StepResult(0.0, 0.0, state.done, state.success, "says nothing")
    return state.act(role, text)


def check_rewards(steps: Sequence[StepResult]) -> None:
    """Raises EnvironmentFailure for a reward that is no finite number: it would spoil its whole group."""
    for step in steps:
        if not (math.isfinite(step.local_reward) and math.isfinite(step.team_reward)):
            raise EnvironmentFailure(
                f"rewards of {step.local_reward} and {step.team_reward} are no finite numbers"
            )


def describe(error: Exception) -> str:
    """An environment's error in one line."""
    return f"{type(error).__name__}: {error}"
