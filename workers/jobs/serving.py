"""Serve a checkpoint: its team behind the gateway's API, where each role is the name of a model. Nothing is recorded or trained."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from training_core.config.files import parse_config, read_toml
from training_core.config.rollout import Agent
from training_core.config.run import RunConfig
from training_core.errors import CheckpointError, ConfigError
from training_core.llm.agents.session import Session, SessionSpec
from training_core.llm.generation.base import Generate, SamplingSettings
from training_core.llm.models.loading import load_tokenizer
from training_core.llm.workflows.task_episodes import policy_clients
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, Prompt
from workers.gateway.gateway import Gateway
from workers.jobs.context import JobContext
from workers.jobs.language_models import frozen, proxies_of
from workers.kinds import WORKER_KINDS
from workers.protocol import PolicyProxy
from workers.storage.folders import JobFolder


@dataclass(frozen=True)
class ServedTeam:
    """An open server."""

    url: str
    """Base URL of OpenAI's clients; Anthropic's use it too."""
    key: str
    """API key that every request needs."""
    roles: list[str]


def checkpoint_config(folder: Path) -> RunConfig:
    """Return the config of a downloaded checkpoint, or of one in the folder of its run. Raises CheckpointError, ConfigError."""
    for file in (folder / "config.toml", folder.resolve().parent.parent / "config.toml"):
        if file.is_file():
            config = parse_config(read_toml(file.read_text()))
            if "talk" in WORKER_KINDS[config.agents].jobs:
                return cast(RunConfig, config)
            raise ConfigError(
                {"": "small networks answer no text"}, remedy="play them with troupe checkpoint evaluate"
            )
    raise CheckpointError(
        f"{folder} has no config.toml, which names the roles",
        remedy="fetch the checkpoint with troupe checkpoint download",
    )


def _present(config: RunConfig, folder: Path) -> RunConfig:
    """Return the config without the roles of trained policies that are not in the folder, as in a download of one policy."""
    team, absent = config.team, {name for name in config.trained_policies if not (folder / name).is_dir()}
    order = tuple(name for name in team.order if team.roles[name].policy not in absent)
    roles = {name: team.roles[name] for name in order}
    team = team.model_copy(update={"roles": roles, "turn_order": order})
    return config.model_copy(update={"team": team}) if order else config


@contextmanager
def served_team(
    folder: Path, home: Path, scratch: Path, *, port: int = 0, key: str = "", greedy: bool = False
) -> Iterator[ServedTeam]:
    """Load the policies of a checkpoint and serve them on 127.0.0.1 during the block, with the sampling of an evaluation.

    Raises CheckpointError, ConfigError, ModelError.
    """
    config = frozen(_present(checkpoint_config(folder), folder), folder)
    proxies = proxies_of(JobContext(config, JobFolder(scratch), home, {}), config)
    models = {policy: proxy.start(None).model for policy, proxy in proxies.items()}
    tokenizers = {policy: load_tokenizer(model) for policy, model in models.items()}
    gateway = Gateway(Agent(port=port), tokenizers, threads=1)
    generate = {policy: _generator(proxy) for policy, proxy in proxies.items()}
    clients = policy_clients(config, generate, gateway, "eval" if greedy else "eval_sampled")
    noise = config.run.seed, NoiseStream.SERVED_POLICIES, 0, 0
    session = Session(
        SessionSpec(Episode("served", 0, "eval", "", ""), {}, clients, noise), stores_calls=False
    )
    session.key, session.returns_token_ids = key or session.key, False
    gateway.start()
    gateway.open(session)
    try:
        yield ServedTeam(f"{gateway.url}/v1", session.key, list(clients))
    finally:
        gateway.close()


def _generator(proxy: PolicyProxy) -> Generate:
    def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        return proxy.generate(list(prompts), settings, 0).answers

    return generate
