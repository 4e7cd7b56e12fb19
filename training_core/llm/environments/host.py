"""Many environments behind one object, by slot number, as in an environment worker.

An environment that raises does not affect others: its slot has an error until it is reset.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from training_core.config.base import Section
from training_core.errors import EnvironmentFailure
from training_core.llm.environments.base import Split, StepResult, TextEnvironment
from training_core.llm.environments.registry import make_environment
from training_core.types import Message


@dataclass(frozen=True)
class SlotView:
    """The visible state of one slot."""

    task_id: str = ""
    title: str = ""
    observation: str = ""
    """Observation of the requested role; empty after reset and commit."""
    messages: tuple[Message, ...] = ()
    """The observation as a conversation, if the environment returns one."""
    silent: bool = False
    """Whether the requested role has no turn now."""
    board: dict[str, Any] | None = None
    done: bool = False
    success: bool = False
    role_success: Mapping[str, bool] = field(default_factory=dict)
    """Success by role, if the environment reports it."""
    outcome: str = ""
    error: str = ""
    """The environment's error; the slot cannot be used until it is reset."""


AnswersBySlot = Mapping[int, Sequence[str | None]]
"""Answers to evaluate by slot, each on its own copy; None is a pass."""


class Source(NamedTuple):
    """A state that other slots copy."""

    slot: int
    tried: int | None = None
    """Index of the answer whose result is copied, between `try_answers` and `commit`; None copies the slot's state."""


class EnvironmentPool(Protocol):
    """Environments by slot: local, or distributed over workers."""

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start tasks: slot -> (task number, split)."""
        ...

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """The observations of a role in these slots."""
        ...

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        """Step one copy of a slot's state per answer (None is a pass); returns the error text if that raised."""
        ...

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Continue with the copy of the answer with this index; the others are dropped."""
        ...

    def spread(self, sources: dict[int, Source]) -> dict[int, SlotView]:
        """Replace the states of these slots by independent copies: slot -> source. No source is one of these slots."""
        ...


_Attempt = tuple[TextEnvironment, StepResult] | str
"""A copy and the effect of an answer on it; or the error."""


class EnvironmentHost:
    """An EnvironmentPool in this process."""

    def __init__(self, section: Section, seed: int) -> None:
        self._make: Callable[[], TextEnvironment] = partial(make_environment, section, seed)
        self._make()  # unreadable data raises now, not in every episode
        self._concurrency = int(getattr(section, "answers_at_a_time", 1))
        self._states: dict[int, TextEnvironment] = {}
        self._copies: dict[int, list[TextEnvironment]] = {}
        self._errors: dict[int, str] = {}

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """Start tasks; the slots' previous states are dropped."""
        views = {}
        for slot, (task, split) in tasks.items():
            self._errors.pop(slot, None)
            self._copies.pop(slot, None)
            views[slot] = self._guarded(slot, partial(self._start, slot, task, split))
        return views

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """The observations of a role in these slots."""
        return {slot: self._guarded(slot, partial(self._view, slot, role)) for slot in slots}

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        """Step copies; several at a time if that waits for other processes."""
        with ThreadPoolExecutor(self._concurrency) as threads:
            apply: Callable[..., Iterable[Any]] = threads.map if self._concurrency > 1 else map
            scored = apply(partial(self._score_group, role), answers, answers.values())
            tries = [
                (slot, text, score)
                for (slot, texts), scores in zip(answers.items(), scored, strict=True)
                for text, score in zip(texts, scores, strict=True)
            ]
            attempts = list(apply(lambda attempt: self._try(role, *attempt), tries))
        attempts_by_slot: dict[int, list[_Attempt]] = {slot: [] for slot in answers}
        for (slot, _, _), attempt in zip(tries, attempts, strict=True):
            attempts_by_slot[slot].append(attempt)
        return {slot: self._store_results(slot, of_slot) for slot, of_slot in attempts_by_slot.items()}

    def _score_group(self, role: str, slot: int, texts: Sequence[str | None]) -> list[Any]:
        """A score for each of a slot's answers, if its environment scores them together, else None; or the error for each."""
        try:
            score = getattr(self._states[slot], "score_group", None)
            if score is None:
                return [None] * len(texts)
            scores = iter(score(role, [text for text in texts if text is not None]))
            return [None if text is None else next(scores) for text in texts]
        except Exception as error:
            return [describe(error)] * len(texts)

    def _try(self, role: str, slot: int, text: str | None, score: Any) -> _Attempt:
        if isinstance(score, str):
            return score
        try:
            copy = self._states[slot].copy()
            step = _act(copy, role, text, score)
            check_rewards([step])
        except Exception as error:
            return describe(error)
        return copy, step

    def _store_results(self, slot: int, attempts: list[_Attempt]) -> list[StepResult] | str:
        """A slot's results; its copies are stored. The first error becomes the slot's."""
        failed = next((attempt for attempt in attempts if isinstance(attempt, str)), None)
        if failed is not None:
            self._errors[slot] = failed
            return failed
        succeeded = [attempt for attempt in attempts if not isinstance(attempt, str)]
        self._copies[slot] = [copy for copy, _ in succeeded]
        return [step for _, step in succeeded]

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """Continue with one copy."""
        views = {}
        for slot, index in chosen.items():
            self._states[slot] = self._copies.pop(slot)[index]
            views[slot] = self._guarded(slot, partial(self._view, slot, ""))
        return views

    def spread(self, sources: dict[int, Source]) -> dict[int, SlotView]:
        """Copy states. A slot whose source has an error has it, too."""
        views = {}
        for slot, source in sources.items():
            self._errors.pop(slot, None)
            self._copies.pop(slot, None)
            views[slot] = self._guarded(slot, partial(self._take_copy, slot, source))
        return views

    def _take_copy(self, slot: int, source: Source) -> SlotView:
        if source.slot in self._errors:
            self._errors[slot] = self._errors[source.slot]
        elif source.tried is None:
            self._states[slot] = self._states[source.slot].copy()
        else:
            self._states[slot] = self._copies[source.slot][source.tried].copy()
        return self._view(slot, "")

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


def _act(state: Any, role: str, text: str | None, score: Any) -> StepResult:
    """Apply an answer; a pass does not change the state and has no reward."""
    if text is None:
        return StepResult(0.0, 0.0, state.done, state.success, "says nothing")
    step: StepResult = state.act(role, text) if score is None else state.act_scored(role, text, score)
    return step


def check_rewards(steps: Sequence[StepResult]) -> None:
    """Raises EnvironmentFailure for a reward that is not finite, because it would invalidate its whole group."""
    for step in steps:
        rewards = (step.local_reward, step.team_reward, *step.rewards.values())
        if not all(map(math.isfinite, rewards)):
            raise EnvironmentFailure(
                f"rewards of {' and '.join(map(str, rewards))} are not finite",
                remedy="act() must return finite rewards",
            )


def check_roles(steps: Sequence[StepResult], roles: Collection[str]) -> None:
    """Raises EnvironmentFailure for a reward of a role that the team does not have."""
    unknown = [role for step in steps for role in step.rewards if role not in roles]
    if unknown:
        raise EnvironmentFailure(
            f"act() rewards {unknown[0]!r}, which is no role of the team",
            remedy=f"StepResult.rewards may have {', '.join(roles)}",
        )


def describe(error: BaseException) -> str:
    """An environment's error in one line."""
    return f"{type(error).__name__}: {error}"
