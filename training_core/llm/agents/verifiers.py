"""Plays the tasks of environments of the package verifiers: classic ones, and version 1 with a seat for each role."""

import logging
import os
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import isfinite
from typing import Any

from training_core.errors import ConfigError, EnvironmentFailure
from training_core.llm.agents.session import Rewards
from training_core.llm.environments.verifiers import Loaded, Verifiers, load

_OUTSIDE = re.compile(
    r"\w*(Infra|Sandbox|Tunnel|Interception|Provider|Toolset|Connect|APITimeout|ReadTimeout|RemoteProtocol)\w*"
)
"""Types of errors that are not due to answers."""
_CAUSE = re.compile(r"^[^:]*: (\w+): ")
"""How verifiers names the cause of an error of an environment's or a task's code."""
_KEY = "PRIME_API_KEY"


class VerifiersPlayer:
    """Plays episodes by calls of the gateway, which records the answers as they were sampled."""

    def __init__(self, section: Verifiers, roles: Sequence[str], seed: int) -> None:
        """Raises ConfigError if the environment cannot be loaded, or its seats are not the roles."""
        self._loaded, self._roles, self._seed = load(section), roles, seed
        if not self._loaded.classic:
            self._environment = _seated(self._loaded, section, roles)
        elif len(roles) > 1:
            text = f"{section.path} has one seat, for one role, not for {', '.join(roles)}"
            raise ConfigError({"team.roles": text}, remedy="give the team one role")
        else:
            self._environment = self._loaded.environment

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The environment's servers, while episodes are played."""
        for name in ("aiohttp.access", "verifiers"):
            logging.getLogger(name).setLevel(logging.WARNING)  # a line for each call, and for each episode
        if self._loaded.classic:
            yield
        else:
            async with self._environment.serving():
                yield

    async def run(self, data: Mapping[str, Any], **connection: Any) -> Rewards:
        """Play a task; returns rewards by role, with the results of the rubric's functions.

        Raises EnvironmentFailure, or RuntimeError for a mistake of a policy.
        """
        task = self._loaded.task(self._seed, data["number"], data["split"])
        play = self._play_classic if self._loaded.classic else self._play_version_1
        return await play(task, connection)

    async def _play_classic(self, row: Any, connection: Mapping[str, Any]) -> Rewards:
        from verifiers.legacy.clients import OpenAIChatCompletionsClient

        client, role = OpenAIChatCompletionsClient(connection["client"]), self._roles[0]
        output = await self._environment.run_rollout(row, client, role, {})
        if output["error"]:
            raise _failure(output["error"]["error_chain_str"].split(" -> "), output["error_chain"])
        return Rewards({role: float(output["reward"] or 0.0)}, {role: _numbers(output.get("metrics") or {})})

    async def _play_version_1(self, task: Any, connection: Mapping[str, Any]) -> Rewards:
        from verifiers.v1 import EvalClientConfig, ModelContext

        # The address has the episode's key; by default a key of Prime Intellect would be sent.
        client = EvalClientConfig(base_url=connection["base_url"], api_key_var="NO_KEY")
        episode = await self._environment.run_episode(task, ModelContext(self._roles[0], client))
        if not self._environment.complete(episode):
            errors = [*(error for trace in episode.traces for error in trace.errors), *episode.errors]
            raise recorded(errors[-1]) if errors else RuntimeError("it is not complete")
        rewards = dict.fromkeys(self._roles, 0.0)
        parts: dict[str, dict[str, float]] = {}
        for trace in episode.traces:
            if (name := trace.agent.name) in rewards:
                rewards[name] += trace.reward
                parts[name] = parts.get(name, {}) | _numbers(trace.metrics) | _numbers(trace.rewards)
        return Rewards(rewards, parts)


def _numbers(results: Mapping[str, Any]) -> dict[str, float]:
    """Results of a rubric's functions that are finite numbers, without their weights."""
    scores = {str(name): getattr(result, "score", result) for name, result in results.items()}
    return {name: float(score) for name, score in scores.items() if _is_finite(score)}


def _is_finite(score: Any) -> bool:
    return isinstance(score, int | float) and isfinite(score)


def recorded(error: Any) -> Exception:
    """An error that verifiers has recorded."""
    return _failure([error.type, *_CAUSE.findall(error.message)], f"{error.type}: {error.message}")


def _failure(kinds: Iterable[str], text: str) -> Exception:
    """An error by its type and those of its causes, because the text may quote an answer."""
    return EnvironmentFailure(text) if any(map(_OUTSIDE.fullmatch, kinds)) else RuntimeError(text)


def _seated(loaded: Loaded, section: Verifiers, roles: Sequence[str]) -> Any:
    """The environment with a role of the team, or a model of its own, in each seat. Raises ConfigError."""
    from verifiers.v1 import AgentConfig
    from verifiers.v1.utils.loaders import load_environment

    config = loaded.environment
    seats = {name: seat for name, seat in config if isinstance(seat, AgentConfig)}
    if unknown := [role for role in roles if role not in seats]:
        text = f"{section.path} has no seat {unknown[0]!r}; its seats are {', '.join(seats)}"
        raise ConfigError({"team.roles": text}, remedy="name the roles as the seats")
    for name, seat in seats.items():
        if name not in roles and not (seat.model and seat.client):
            own = f"environment.args.{name}.model and .client"
            text = f"nobody plays the seat {name!r} of {section.path}"
            remedy = f"add [team.roles.{name}], with trained = false for a frozen one, or set {own}"
            raise ConfigError({"team.roles": text}, remedy=remedy)
        agent = _agent(config, name, section.args.get(name, {}), loaded.runs_programs)
        seats[name] = seat.model_copy(update=({"model": name} if name in roles else {}) | agent)
    return load_environment(config.model_copy(update=seats))


def _agent(config: Any, name: str, args: Mapping[str, Any], runs_programs: bool) -> dict[str, Any]:
    """Who plays a seat: a conversation in this process, unless a harness is named or its tasks run programs. Raises ConfigError."""
    from verifiers.v1 import SubprocessConfig
    from verifiers.v1.utils.loaders import harness_class

    from training_core.llm.agents.verifiers_chat import CHAT

    seat, harness = getattr(config, name), config.agent_harnesses()[name].id
    runtime = seat.runtime.type
    unnamed = harness == "bash" and seat.harness is None  # what verifiers takes if nobody names one
    if not runs_programs and "harness" not in args and (unnamed or harness == "null"):
        if "runtime" in args:
            text = f"the conversation of {name} is held in this process"
            raise _refused(text, f"remove {name}.runtime, or name its harness")
        return {"harness": CHAT, "runtime": SubprocessConfig()}
    if runtime == "subprocess" and (runs_programs or harness_class(harness).EXECUTES_CODE):
        text = f"{harness} would run the commands of {name} on this machine, without a sandbox"
        raise _refused(text, f"set {name}.runtime.type to docker, prime or modal")
    if runtime == "prime" and not os.environ.get(_KEY):
        text = f"the seat {name!r} plays in a sandbox of Prime Intellect, which needs a network and {_KEY}"
        raise _refused(text, f"set {_KEY} where the workers run, or {name}.runtime.type to docker")
    return {}


def _refused(text: str, remedy: str) -> ConfigError:
    return ConfigError({"environment.args": text}, remedy=remedy)
