"""Talk to a checkpoint: one episode in which a person plays some of the roles.

The person is a policy like any other: when the coordinator calls it, it writes the role's observation to the job's folder
and waits for the text that the server writes there.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import EngineFailure, TroupeError
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import (
    AnswersBySlot,
    EnvironmentHost,
    EnvironmentPool,
    SlotView,
    Source,
)
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Group, Prompt
from workers.jobs.context import JobContext, figures
from workers.jobs.language_models import coordinator_of, frozen, proxies_of
from workers.protocol import EpisodeFacts, Generated, PolicyUpdate, Ready, Span, System

ANSWER_SECONDS = 900.0
"""Seconds that the person has for an answer; then the job ends, and frees its devices."""
POLL_SECONDS = 0.1
PERSON = "person"


class AnswerTimeout(TroupeError):
    """The person has not answered within ANSWER_SECONDS."""


class RecordingPool:
    """An EnvironmentPool of one slot that records every move."""

    def __init__(self, pool: EnvironmentPool, note: Callable[[], None]) -> None:
        self._pool = pool
        self._note = note
        self.role = ""
        self.view = SlotView()
        self.moves: list[dict[str, Any]] = []
        self._tried: list[dict[str, Any]] = []

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        views = self._pool.reset(tasks)
        self.view = views[0]
        return views

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        views = self._pool.observe(slots, role)
        self.role, self.view = role, views[0]
        self._note()
        return views

    def try_answers(self, answers: AnswersBySlot, role: str) -> dict[int, list[StepResult] | str]:
        results = self._pool.try_answers(answers, role)
        steps = results[0]
        if not isinstance(steps, str):
            self._tried = [
                {"role": role, "saw": self.view.observation, "text": text or "", "board": self.view.board}
                | asdict(step)
                for text, step in zip(answers[0], steps, strict=True)
            ]
        return results

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        views = self._pool.commit(chosen)
        if 0 in chosen:
            self.moves.append(self._tried[chosen[0]])
            self.view = views[0]
            self._note()
        return views

    def spread(self, sources: dict[int, Source]) -> dict[int, SlotView]:
        return self._pool.spread(sources)


class PersonProxy:
    """A PolicyProxy whose answers a person writes."""

    def __init__(self, context: JobContext[RunConfig], model: str, ask: Callable[[int | None], None]) -> None:
        self._context = context
        self._model = model
        self._ask = ask
        self._turn = 0

    def start(self, resume_from: Path | None) -> Ready:
        """Use the tokenizer of the policy that the person replaces."""
        return Ready(self._model, {}, 0)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Wait for the person's answer. Raises AnswerTimeout."""
        self._ask(self._turn)
        deadline = time.monotonic() + ANSWER_SECONDS
        while (text := self._context.folder.said(self._turn)) is None:
            if time.monotonic() > deadline:
                raise AnswerTimeout(
                    f"no answer was sent for {ANSWER_SECONDS / 60:.0f} minutes",
                    remedy="start a new conversation",
                )
            time.sleep(POLL_SECONDS)
        self._turn += 1
        self._ask(None)
        return Generated([[Answer([], [], [], "stop", text)] for _ in prompts], [])

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Raise EngineFailure."""
        raise EngineFailure("this policy only generates and cannot be updated")

    def publish(self, version: int, iteration: int) -> list[Span]:
        return []

    def save(self, folder: Path) -> None:
        """Save nothing."""

    def system(self) -> System:
        return System({})


def talk(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Play one held-out task; parameters are the person's `roles` and the number of the `task`. Result: the episode's figures."""
    person_roles = [str(role) for role in context.parameters.get("roles", [])]
    task = int(context.parameters.get("task", 0))
    kind = context.parameters.get("kind", "eval_sampled")
    config = frozen(context.config, context.checkpoint)
    generating = {role.policy for name, role in config.team.roles.items() if name not in person_roles}
    proxies = {name: proxy for name, proxy in proxies_of(context, config).items() if name in generating}
    pool: RecordingPool

    def write_state(turn: int | None) -> None:
        state = {
            "moves": pool.moves,
            "asked": None if turn is None else _prompt(config, pool, turn),
            "title": pool.view.title,
            "board": pool.view.board,
        }
        context.folder.write("moment", state)

    pool = RecordingPool(EnvironmentHost(config.environment, config.run.seed), lambda: write_state(None))
    for role in person_roles:
        policy = config.team.roles[role].policy
        name = config.policies[policy].model
        model = str(resolve_model(name, config.environment, context.home))
        proxies[PERSON] = proxies.get(PERSON) or PersonProxy(context, model, write_state)
    coordinator = coordinator_of(context, _with_person(config, person_roles), proxies, pool)
    context.progress(0.5, "playing")
    collected = coordinator.evaluate(0, kind, 1, first=task)
    context.folder.keep(collected.transcripts)
    facts: list[EpisodeFacts] = collected.facts
    return figures(facts) | {"roles": person_roles, "outcome": pool.view.outcome}


def _with_person(config: RunConfig, person_roles: list[str]) -> RunConfig:
    roles = {
        name: role.model_copy(update={"policy": PERSON}) if name in person_roles else role
        for name, role in config.team.roles.items()
    }
    return config.model_copy(update={"team": config.team.model_copy(update={"roles": roles})})


def _prompt(config: RunConfig, pool: RecordingPool, turn: int) -> dict[str, Any]:
    return {
        "turn": turn,
        "role": pool.role,
        "prompt": config.team.roles[pool.role].prompt,
        "saw": pool.view.observation,
        "board": pool.view.board,
    }
