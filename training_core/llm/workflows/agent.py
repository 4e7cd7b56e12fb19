"""Custom agents: K episodes of each task, played by any program through the gateway.

An agent is a class with `async run(data, **kwargs)` that runs here (AReaL's newer interface), or any process that
requests episodes over HTTP. The group is (task, role), as for whole episodes: every token of a role in an episode has
the advantage of the role's reward. With workflow.export_style = "individual" it is (task, role, number of the call),
and each call has the advantage of its own return. If an agent fails, its episode counts as failed and is not trained
on.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any, Literal

from training_core.config.rollout import Agent, RolloutWorkflow
from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure
from training_core.llm.agents.gateway import AgentGateway
from training_core.llm.agents.loading import load_agent
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec, write_episode
from training_core.llm.environments.base import Split
from training_core.llm.environments.dataset.config import Dataset
from training_core.llm.environments.dataset.instances import task_instance
from training_core.llm.environments.host import SlotView, describe
from training_core.llm.generation.base import SamplingSettings, settings_of
from training_core.llm.workflows.context import RolloutContext, chat_messages
from training_core.llm.workflows.independent import EVALUATION_SEED, evaluation_settings
from training_core.llm.workflows.overlong import apply_overlong_penalty
from training_core.seeding import NoiseStream
from training_core.types import Episode

_POLL_SECONDS = 0.2
"""Seconds between checks of external agents."""
log = logging.getLogger(__name__)


def play_agents(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, K = rollout.group_size episodes of each."""
    config, count = context.config, context.config.rollout.group_size
    views = initial_views(tasks, context, "train")
    sessions = []
    for task in tasks:
        for sibling in range(count):
            number = task * count + sibling
            episode = new_episode(context, "train", f"{number}", views[task][""])
            episode.siblings = f"{context.iteration}-{task}"
            episode.turn_discount = turn_discount_of(config)
            noise = (config.run.seed, NoiseStream.AGENTS, context.iteration, number)
            clients = _policy_clients(context, lambda role: settings_of(config.team.roles[role].sampling))
            sessions.append(
                Session(SessionSpec(episode, task_data(task, "train", views[task], config), clients, noise))
            )
    return _play(sessions, context)


def play_agents_evaluation(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Play held-out tasks once each: "eval" greedily, "eval_sampled" at the role's temperature for it."""
    config = context.config
    views = initial_views(tasks, context, "eval")
    sessions = []
    for task in tasks:
        episode = new_episode(context, kind, f"{task}", views[task][""])
        episode.probe = task < config.evaluation.probes
        noise = (EVALUATION_SEED, NoiseStream.AGENT_EVALUATION, 0, task)
        data = task_data(task, "eval", views[task], config)
        sessions.append(
            Session(
                SessionSpec(
                    episode,
                    data,
                    _policy_clients(context, lambda role: evaluation_settings(config, role, kind)),
                    noise,
                )
            )
        )
    return _play(sessions, context)


def turn_discount_of(config: RunConfig) -> float | None:
    """None if calls are joined into sequences; see workflow.export_style."""
    workflow = config.workflow
    if isinstance(workflow, Agent | RolloutWorkflow) and workflow.export_style == "individual":
        return workflow.turn_discount
    return None


def _play(sessions: list[Session], context: RolloutContext) -> list[Episode]:
    """Have every session played, here or externally, and return the episodes."""
    workflow, gateway = context.config.workflow, context.gateway
    assert isinstance(workflow, Agent), "this workflow is for agents"
    assert gateway is not None, "agents need a gateway"
    try:
        if workflow.path:
            asyncio.run(_run_local_agents(sessions, workflow, gateway))
        else:
            _wait_for_external_agents(sessions, workflow, gateway)
    finally:
        gateway.withdraw(sessions)
    weights = context.config.algorithm.team_weight, context.config.algorithm.local_weight
    episodes = [write_episode(session, workflow.success_at, weights) for session in sessions]
    apply_overlong_penalty(episodes, context.config)
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        log.warning("%d of %d agents failed; one of them: %s", len(failed), len(episodes), failed[0].error)
    return episodes


async def _run_local_agents(sessions: Sequence[Session], workflow: Agent, gateway: AgentGateway) -> None:
    """Run an agent of `path` for each session, `concurrency` at a time."""
    import httpx
    from openai import AsyncOpenAI

    agent_class = load_agent(workflow.path)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx logs every call, with the episode's key
    slots = asyncio.Semaphore(workflow.concurrency)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=workflow.concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=workflow.timeout, trust_env=False) as http:

        async def play(session: Session) -> None:
            async with slots:
                url = gateway.open(session)
                client = AsyncOpenAI(base_url=url, api_key=session.key, http_client=http, max_retries=0)
                connection = {"base_url": url, "api_key": session.key, "http_client": http, "client": client}
                await _run_agent(lambda: agent_class(**workflow.args), session, connection, workflow.timeout)

        await asyncio.gather(*(play(session) for session in sessions))


async def _run_agent(
    make: Callable[[], Any], session: Session, connection: dict[str, Any], timeout: float
) -> None:
    """One agent from first to last call; any exception makes its episode fail."""
    try:
        agent = make()
        if inspect.iscoroutinefunction(agent.run):
            playing = agent.run(session.spec.data, **connection)
        else:
            playing = asyncio.to_thread(agent.run, session.spec.data, **connection)
        result = await asyncio.wait_for(playing, timeout)
        if result is not None:
            session.reward({"rewards": result} if isinstance(result, dict) else {"reward": result})
        session.close()
    except TimeoutError:
        session.close(f"the agent took longer than workflow.timeout = {timeout:g} seconds")
    except Exception as error:
        session.close(describe(error))


def _wait_for_external_agents(sessions: Sequence[Session], workflow: Agent, gateway: AgentGateway) -> None:
    """Wait until external agents have played every session. Raises EnvironmentFailure if none connects."""
    gateway.offer(sessions)
    last = time.monotonic()
    accepted = 0
    while waiting := [session for session in sessions if not session.done.done()]:
        wait([session.done for session in waiting], timeout=_POLL_SECONDS)
        playing = [session for session in waiting if session.accepted_at]
        for session in playing:
            if time.time() - session.accepted_at > workflow.timeout:
                session.close(f"the agent took longer than workflow.timeout = {workflow.timeout:g} seconds")
        count = sum(bool(session.accepted_at) for session in sessions)
        if count > accepted or len(playing) == len(waiting):
            last, accepted = time.monotonic(), count
        if workflow.patience and time.monotonic() - last > workflow.patience:
            raise EnvironmentFailure(
                f"no agent accepted an episode within workflow.patience = {workflow.patience:g} seconds; start "
                "agents that request episodes from the gateway, or set workflow.path"
            )


def initial_views(
    tasks: Sequence[int], context: RolloutContext, split: Split
) -> dict[int, dict[str, SlotView]]:
    """By task: the initial observation of each role; "" is the task itself."""
    slots = dict(enumerate(tasks))
    started = context.pool.reset({slot: (task, split) for slot, task in slots.items()})
    seen = {role: context.pool.observe(list(slots), role) for role in context.config.team.order}
    return {
        task: {"": started[slot]} | {role: views[slot] for role, views in seen.items()}
        for slot, task in slots.items()
    }


def task_data(task: int, split: Split, views: dict[str, SlotView], config: RunConfig) -> dict[str, Any]:
    """A task as passed to an agent."""
    first = config.team.order[0]
    row: dict[str, Any] = {}
    if isinstance(config.environment, Dataset):
        row = task_instance(config.environment, config.run.seed, task, split).data
    return row | {
        "id": views[""].task_id,
        "number": task,
        "split": split,
        "title": views[""].title,
        "observations": {role: views[role].observation for role in config.team.order},
        "messages": chat_messages(config.team.roles[first], views[first]),
    }


def _policy_clients(
    context: RolloutContext, settings: Callable[[str], SamplingSettings]
) -> dict[str, PolicyClient]:
    assert context.gateway is not None
    return {
        role: PolicyClient(
            policy, context.generate[policy], settings(role), context.gateway.renderers[policy]
        )
        for role in context.config.team.order
        for policy in [context.config.team.roles[role].policy]
    }


def new_episode(
    context: RolloutContext, kind: Literal["train", "eval", "eval_sampled"], name: str, view: SlotView
) -> Episode:
    full = f"{context.attempt}-{context.iteration}-{kind}-{name}"
    return Episode(full, context.iteration, kind, view.task_id, view.title, started=time.time())
