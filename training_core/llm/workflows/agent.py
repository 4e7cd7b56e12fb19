"""Custom agents: K episodes of each task, played by any program through the gateway.

An agent is a class with `async run(data, **kwargs)` that runs here (AReaL's newer interface), or any process that
requests episodes over HTTP. If an agent fails, its episode counts as failed and is not trained on.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import wait
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from training_core.config.base import Section
from training_core.config.rollout import Agent
from training_core.config.run import RunConfig
from training_core.errors import ConfigError, EnvironmentFailure
from training_core.event_loop import in_process_loop
from training_core.importing import load_object, resolve
from training_core.llm.agents.session import (
    AgentGateway,
    Rewards,
    Session,
    failures_rewarded,
    write_episode,
)
from training_core.llm.external.source import ExternalWait
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.task_episodes import (
    complete,
    play_concurrently,
    policy_clients,
    task_episodes,
    timeout_message,
    turn_discount_of,
)
from training_core.seeding import NoiseStream
from training_core.types import Episode

log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
"""Seconds between checks of external agents."""
_TOLD_SECONDS = 5.0
"""Seconds without an agent after which the run tells that it waits."""
STREAMS = NoiseStream.AGENTS, NoiseStream.AGENT_EVALUATION


def play_agents(tasks: Sequence[int], context: RolloutContext, kind: EpisodeKind = "train") -> list[Episode]:
    """Have every episode played, here or externally."""
    config, workflow, gateway = context.config, context.config.workflow, context.gateway
    assert isinstance(workflow, Agent), "this workflow is for agents"
    assert gateway is not None, "agents need a gateway"
    sessions = []
    for item in task_episodes(tasks, context, kind, STREAMS):
        if kind == "train":
            item.episode.turn_discount = turn_discount_of(config)
        clients = policy_clients(config, context.generate, gateway, kind)
        sessions.append(Session(replace(item, clients=clients)))
    try:
        if workflow.path or config.environment.player:
            asyncio.run(_run_local_agents(sessions, config, workflow, gateway))
        else:
            _wait_for_external_agents(sessions, workflow, gateway, context.waiting)
    finally:
        gateway.withdraw(sessions)
    counted = [session.outcome.failure for session in sessions if session.outcome.failure]
    if counted:
        log.warning(
            "%d of %d episodes ended with an error and count as workflow.failure_reward = %g; one of them: %s",
            len(counted), len(sessions), workflow.failure_reward, counted[0],
        )  # fmt: skip
    weights = config.algorithm.team_weight, config.algorithm.local_weight
    return complete([write_episode(session, workflow.success_at, weights) for session in sessions], config)


async def _run_local_agents(
    sessions: Sequence[Session], config: RunConfig, workflow: Agent, gateway: AgentGateway
) -> None:
    """Run an agent of `path`, or the environment's player, for each session."""
    await in_process_loop(_play(sessions, config, workflow, gateway))


async def _play(
    sessions: Sequence[Session], config: RunConfig, workflow: Agent, gateway: AgentGateway
) -> None:
    import httpx
    from openai import AsyncOpenAI

    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs every call, with the episode's key
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=workflow.concurrency)
    async with (
        _agents(config, workflow) as make_agent,
        httpx.AsyncClient(limits=limits, timeout=workflow.timeout, trust_env=False) as http,
    ):

        async def play(session: Session) -> None:
            url = gateway.open(session)
            client = AsyncOpenAI(base_url=url, api_key=session.key, http_client=http, max_retries=0)
            connection = {"base_url": url, "api_key": session.key, "http_client": http, "client": client}
            agent = make_agent()
            with failures_rewarded(session, workflow.failure_reward):
                if inspect.iscoroutinefunction(agent.run):
                    result = await agent.run(session.spec.data, **connection)
                else:
                    result = await asyncio.to_thread(agent.run, session.spec.data, **connection)
                if isinstance(result, Rewards):
                    session.reward({"rewards": result.by_role, "parts": result.parts})
                elif result is not None:
                    session.reward({"rewards": result} if isinstance(result, dict) else {"reward": result})
                session.close()

        await play_concurrently(sessions, play, Session.close, workflow)


@asynccontextmanager
async def _agents(config: RunConfig, workflow: Agent) -> AsyncIterator[Callable[[], Any]]:
    """A function that makes the agent of an episode. An environment's player is one for all. Raises ConfigError."""
    if workflow.path:
        yield partial(load_agent(workflow.path), **workflow.args)
        return
    player = make_player(config)
    async with player.serving():
        yield lambda: player


def make_player(config: RunConfig) -> Any:
    """The player of an environment that plays its tasks itself. Raises ConfigError if the team does not fit."""
    return resolve(config.environment.player)(config.environment, config.team.order, config.run.seed)


def _wait_for_external_agents(
    sessions: Sequence[Session], workflow: Agent, gateway: AgentGateway, waiting_for: ExternalWait
) -> None:
    """Wait until external agents have played every session. Raises EnvironmentFailure if none connects, and StopRequested."""
    gateway.offer(sessions)
    last = time.monotonic()
    accepted = 0
    while waiting := [session for session in sessions if not session.done.done()]:
        wait([session.done for session in waiting], timeout=_POLL_SECONDS)
        playing = [session for session in waiting if session.accepted_at]
        for session in playing:
            if time.time() - session.accepted_at > workflow.timeout:
                session.close(timeout_message(workflow))
        count = sum(bool(session.accepted_at) for session in sessions)
        if count > accepted or len(playing) == len(waiting):
            last, accepted = time.monotonic(), count
        waiting_for.check(_waiting_words(len(waiting), len(playing), time.monotonic() - last))
        if workflow.patience and time.monotonic() - last > workflow.patience:
            raise EnvironmentFailure(
                f"no agent accepted an episode within workflow.patience = {workflow.patience:g} seconds",
                remedy="start agents that request episodes from the gateway, or set workflow.path",
            )
    waiting_for.reason = ""


def _waiting_words(waiting: int, playing: int, seconds: float) -> str:
    """What the run waits for: an agent that takes an episode, or the end of those that are played; empty at first."""
    if waiting > playing and seconds >= _TOLD_SECONDS:
        return f"waits for agents; none has taken an episode for {seconds:.0f} s ({waiting - playing} are offered, {playing} are played)"
    return ""


def load_agent(path: str) -> Any:
    """The class at workflow.path. Raises ConfigError if it does not exist or has no method `run`."""
    agent = load_object(path, "workflow.path")
    if not callable(getattr(agent, "run", None)):
        raise ConfigError({"workflow.path": f"{path} has no method run(data, **kwargs)"})
    return agent


def _check_agent(agent_class: Any, section: Agent) -> None:
    """Construct an agent, and call its own `check` if it has one. Raises ConfigError for arguments that do not fit."""
    try:
        agent = agent_class(**section.args)
    except TypeError as error:
        text = f"{section.path} cannot be constructed with them: {error}"
        raise ConfigError({"workflow.args": text}) from error
    if hasattr(agent, "check"):
        agent.check()


def check_workflow(section: Section) -> None:
    """Import what a workflow's section names. Raises ConfigError for the first object that cannot be used."""
    for field in section.import_fields:
        path = getattr(section, field)
        if path and isinstance(section, Agent):
            _check_agent(load_agent(path), section)
        elif path:
            load_object(path, f"workflow.{field}")
