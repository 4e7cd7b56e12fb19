"""The run's own policies as the server that a generator calls: stateless addresses on the gateway.

A generator continues during updates; its requests wait until they end, so that no answer is sampled from partially
updated weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from training_core.config.run import RunConfig
from training_core.llm.agents.conversation import Conversation
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec
from training_core.llm.generation.base import Generate, SamplingSettings
from training_core.llm.serving.gate import Gate
from training_core.llm.workflows.independent import sampling_settings
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, Prompt

POLICIES = "policies"
"""The value of workflow.engine_url that selects them."""


class ServedPolicies:
    """One address per kind of play for the whole run. Thread-safe."""

    def __init__(self, config: RunConfig, gateway: AgentGateway) -> None:
        self._config = config
        self._gateway = gateway
        self._engines: Mapping[str, Generate] = {}
        self._addresses: dict[EpisodeKind, str] = {}
        self._gate = Gate(slots=None)
        self._gate.close()

    @contextmanager
    def serving(self, engines: Mapping[str, Generate], kind: EpisodeKind) -> Iterator[str]:
        """The address for this kind. Within the block, requests of every kind are answered by `engines`; afterwards they wait.

        Blocks do not overlap.
        """
        self._engines = engines
        self._gate.open()
        try:
            yield self._address(kind)
        finally:
            self._gate.close()

    def close(self) -> None:
        """Refuse waiting requests."""
        self._gate.end("the run has ended")

    def _address(self, kind: EpisodeKind) -> str:
        if kind not in self._addresses:
            generate = {policy: self._generator(policy) for policy in self._config.used_policies}
            clients = policy_clients(self._config, generate, self._gateway, kind)
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

    def _generator(self, policy: str) -> Generate:
        """The policy's current engine, once it may generate."""

        def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            with self._gate.passing():
                return self._engines[policy](prompts, settings)

        return generate


def policy_clients(
    config: RunConfig, generate: Mapping[str, Generate], gateway: AgentGateway, kind: EpisodeKind
) -> dict[str, PolicyClient]:
    """The client of each role, in the team's order. `generate`: engine call by policy."""
    return {
        role: PolicyClient(
            policy, generate[policy], sampling_settings(config, role, kind), gateway.renderers[policy]
        )
        for role in config.team.order
        for policy in [config.team.roles[role].policy]
    }


class _UnstoredConversations(dict[str, Conversation]):
    """A new conversation for every call: the records contain the text, so it is not stored here."""

    def __init__(self, renderers: Mapping[str, Renderer]) -> None:
        super().__init__({role: Conversation(renderer) for role, renderer in renderers.items()})
        self._renderers = renderers

    def __getitem__(self, role: str) -> Conversation:
        return Conversation(self._renderers[role])
