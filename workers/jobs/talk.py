"""Talk to a checkpoint: one episode in which a person speaks for some of the roles.

The person's turn is a policy port like any other: the coordinator asks it, it writes down what the role sees and waits for
the words that the server leaves in the job's folder.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import TroupeError
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import EnvironmentHost, EnvironmentPool, Said, SlotView
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt
from workers.jobs.context import JobContext
from workers.jobs.figures import figures
from workers.jobs.seats import Kept, Voiceless, coordinator_of, proxies_of, seated
from workers.protocol.records import EpisodeFacts
from workers.protocol.spec import Generated, PolicyProxy, Ready

PATIENCE = 900.0
"""Seconds that a person may think; then the job ends, and lets go of its devices."""
LOOK = 0.1
PERSON = "person"


class NobodyAnswers(TroupeError):
    """The person has not spoken for too long."""


class Watched:
    """An EnvironmentPool of one slot that notes every move as it is made."""

    def __init__(self, pool: EnvironmentPool, note: Callable[[], None]) -> None:
        self._pool = pool
        self._note = note
        self.role = ""
        self.view = SlotView()
        self.moves: list[dict[str, Any]] = []
        self._tried: list[dict[str, Any]] = []

    def reset(self, tasks: dict[int, tuple[int, Split]]) -> dict[int, SlotView]:
        """See EnvironmentPool."""
        views = self._pool.reset(tasks)
        self.view = views[0]
        return views

    def observe(self, slots: list[int], role: str) -> dict[int, SlotView]:
        """See EnvironmentPool."""
        views = self._pool.observe(slots, role)
        self.role, self.view = role, views[0]
        self._note()
        return views

    def try_answers(self, answers: Said, role: str) -> dict[int, list[StepResult] | str]:
        """See EnvironmentPool."""
        results = self._pool.try_answers(answers, role)
        found = results[0]
        if not isinstance(found, str):
            self._tried = [
                {"role": role, "saw": self.view.observation, "text": text or "", "board": self.view.board}
                | asdict(step)
                for text, step in zip(answers[0], found, strict=True)
            ]
        return results

    def commit(self, chosen: dict[int, int]) -> dict[int, SlotView]:
        """See EnvironmentPool."""
        views = self._pool.commit(chosen)
        if 0 in chosen:
            self.moves.append(self._tried[chosen[0]])
            self.view = views[0]
            self._note()
        return views


class PersonProxy(Voiceless):
    """A person in a policy's place."""

    def __init__(self, context: JobContext[RunConfig], model: str, ask: Callable[[int | None], None]) -> None:
        self._context = context
        self._model = model
        self._ask = ask
        self._turn = 0

    def start(self, resume_from: Path | None) -> Ready:
        """The tokenizer is that of the policy whose place is taken."""
        return Ready(self._model, {}, 0)

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """One answer, when the person has given it. Raises NobodyAnswers."""
        self._ask(self._turn)
        deadline = time.monotonic() + PATIENCE
        while (text := self._context.folder.said(self._turn)) is None:
            if time.monotonic() > deadline:
                raise NobodyAnswers(f"nobody spoke for {PATIENCE / 60:.0f} minutes; start a new conversation")
            time.sleep(LOOK)
        self._turn += 1
        self._ask(None)
        return Generated([[Answer([], [], [], "stop", text)] for _ in prompts], [])


def talk(context: JobContext[RunConfig]) -> dict[str, Any]:
    """One held-out task; `roles` are the person's, `task` its number. Result: the episode's figures."""
    theirs = [str(role) for role in context.parameters.get("roles", [])]
    task = int(context.parameters.get("task", 0))
    kind = context.parameters.get("kind", "eval_sampled")
    config = seated(context.config, context.checkpoint)
    proxies = _loaded(context, config, theirs)
    watched: Watched

    def tell(turn: int | None) -> None:
        asked = None if turn is None else _asked(config, watched, turn)
        now = {
            "moves": watched.moves,
            "asked": asked,
            "title": watched.view.title,
            "board": watched.view.board,
        }
        context.folder.write("moment", now)

    watched = Watched(EnvironmentHost(config.environment, config.run.seed), lambda: tell(None))
    ready = {policy: proxy.start(None) for policy, proxy in proxies.items()}
    for role in theirs:
        policy = config.team.roles[role].policy
        model = ready[policy].model if policy in ready else str(config.policies[policy].model)
        proxies[PERSON] = proxies.get(PERSON) or PersonProxy(context, model, tell)
    coordinator = coordinator_of(context, _with_person(config, theirs), proxies, watched)
    context.progress(0.5, "playing")
    collected = coordinator.evaluate(0, kind, 1, first=task)
    context.folder.keep(collected.transcripts)
    facts: list[EpisodeFacts] = collected.facts
    return figures(facts) | {"roles": theirs, "outcome": watched.view.outcome}


def _loaded(context: JobContext[RunConfig], config: RunConfig, theirs: list[str]) -> dict[str, PolicyProxy]:
    """Ports of the policies that somebody still needs: to speak, or for its tokenizer."""
    speaking = [role.policy for name, role in config.team.roles.items() if name not in theirs]
    proxies = proxies_of(context, config)
    needed = speaking or list(config.used_policies)[:1]
    return {name: proxy for name, proxy in proxies.items() if name in needed and isinstance(proxy, Kept)}


def _with_person(config: RunConfig, theirs: list[str]) -> RunConfig:
    roles = {
        name: role.model_copy(update={"policy": PERSON}) if name in theirs else role
        for name, role in config.team.roles.items()
    }
    return config.model_copy(update={"team": config.team.model_copy(update={"roles": roles})})


def _asked(config: RunConfig, watched: Watched, turn: int) -> dict[str, Any]:
    return {
        "turn": turn,
        "role": watched.role,
        "prompt": config.team.roles[watched.role].prompt,
        "saw": watched.view.observation,
        "board": watched.view.board,
    }
