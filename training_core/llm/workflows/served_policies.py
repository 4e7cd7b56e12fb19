"""The run's own policies as the server that a generator calls: stateless addresses on the gateway.

A generator continues during updates; its requests wait until they end, so that no answer is sampled from partially
updated weights.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from training_core.config.run import RunConfig
from training_core.errors import EngineFailure
from training_core.llm.agents.conversation import Conversation
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec
from training_core.llm.generation.base import Generate, SamplingSettings, settings_of
from training_core.llm.workflows.independent import evaluation_settings
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, Prompt

POLICIES = "policies"
"""The value of workflow.engine_url that selects them."""
PlayKind = Literal["train", "eval", "eval_sampled"]


class ServedPolicies:
    """One address per kind of play for the whole run. Thread-safe."""

    def __init__(self, config: RunConfig, gateway: AgentGateway) -> None:
        self._config = config
        self._gateway = gateway
        self._engines: Mapping[str, Generate] = {}
        self._addresses: dict[PlayKind, str] = {}
        self._changed = threading.Condition()
        self._open = self._closed = False
        self._active_calls = 0

    @contextmanager
    def serving(self, engines: Mapping[str, Generate], kind: PlayKind) -> Iterator[str]:
        """The address for this kind. Within the block, requests of every kind are answered by `engines`; afterwards they wait."""
        with self._changed:
            self._engines, self._open = engines, True
            self._changed.notify_all()
        try:
            yield self._address(kind)
        finally:
            with self._changed:
                self._open = False
                self._changed.wait_for(lambda: self._active_calls == 0)

    def close(self) -> None:
        """Refuse waiting requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _address(self, kind: PlayKind) -> str:
        if kind not in self._addresses:
            clients = {
                role: PolicyClient(
                    section.policy,
                    self._generate(section.policy),
                    self._settings(role, kind),
                    self._gateway.renderers[section.policy],
                )
                for role, section in self._config.team.roles.items()
            }
            episode = Episode(f"served-{kind}", 0, kind, "", "")
            session = Session(
                SessionSpec(episode, {}, clients, (self._config.run.seed, NoiseStream.SERVED_POLICIES, 0, 0))
            )
            session.returns_token_ids = True  # records may return them
            session.conversations = _UnstoredConversations(
                {role: client.renderer for role, client in clients.items()}
            )
            self._addresses[kind] = self._gateway.open(session)
        return self._addresses[kind]

    def _settings(self, role: str, kind: PlayKind) -> SamplingSettings:
        if kind == "train":
            return settings_of(self._config.team.roles[role].sampling)
        return evaluation_settings(self._config, role, kind)

    def _generate(self, policy: str) -> Generate:
        """The policy's current engine, once it may generate."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            with self._changed:
                self._changed.wait_for(lambda: self._open or self._closed)
                if self._closed:
                    raise EngineFailure("the run has ended")
                self._active_calls += 1
                engine = self._engines[policy]
            try:
                return engine(prompts, settings)
            finally:
                with self._changed:
                    self._active_calls -= 1
                    self._changed.notify_all()

        return generate


class _UnstoredConversations(dict[str, Conversation]):
    """A new conversation for every call: the records contain the text, so it is not stored here."""

    def __init__(self, renderers: Mapping[str, Renderer]) -> None:
        super().__init__({role: Conversation(renderer) for role, renderer in renderers.items()})
        self._renderers = renderers

    def __getitem__(self, role: str) -> Conversation:
        return Conversation(self._renderers[role])
