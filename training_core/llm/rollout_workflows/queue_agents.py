"""Agents that communicate by queues, as in AReaL's older interface: observations out, actions in, and an environment.

The adapter records the tokens of every call, so an agent only has to return rewards.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training_core.errors import EnvironmentFailure
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    Interaction,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine

Observation = tuple[str, list[int], GenerationHyperparameters]
"""(id of the question, token ids, sampling settings)"""


@dataclass(frozen=True)
class BundledGenerationOutputs:
    """The policy's answers to one observation; one entry per answer."""

    qid: str
    prompt_ids: list[int]
    output_ids: list[list[int]]
    logprobs: list[list[float]]
    no_eos: list[bool]
    """Whether the answer was truncated at the token limit."""
    version_start: list[int]
    version_end: list[int]

    @property
    def seqs(self) -> list[list[int]]:
        """Prompt and answer of each sequence."""
        return [self.prompt_ids + ids for ids in self.output_ids]


class EnvironmentService(ABC):
    """A Gym-like environment whose calls do not block each other."""

    async def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset; return (observation, info)."""
        return None, {}

    @abstractmethod
    async def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info)."""


class Agent(ABC):
    """Collects one trajectory."""

    @abstractmethod
    async def collect_trajectory(
        self,
        prompt: dict[str, Any],
        env: EnvironmentService | None,
        obs_queue: "asyncio.Queue[Observation]",
        act_queue: "asyncio.Queue[BundledGenerationOutputs]",
    ) -> Trajectory | Sequence[float] | float | None:
        """Play `prompt` (data with `qid` and `input_ids`).

        Returns tensors, a reward per call or one for all, or None for a rejected episode.
        """


class QueueAgentWorkflow(RolloutWorkflow):
    """Plays an Agent as a rollout workflow."""

    def __init__(self, agent: Agent, environment: EnvironmentService | None = None) -> None:
        self._agent = agent
        self._environment = environment

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        """Play an episode by the agent's queue. Raises EnvironmentFailure if rewards and calls do not match."""
        obs_queue: asyncio.Queue[Observation] = asyncio.Queue()
        act_queue: asyncio.Queue[BundledGenerationOutputs] = asyncio.Queue()
        calls: list[ModelResponse] = []
        serving = asyncio.create_task(_serve(engine, obs_queue, act_queue, calls))
        playing = asyncio.create_task(
            self._agent.collect_trajectory(data, self._environment, obs_queue, act_queue)
        )
        try:
            await asyncio.wait({serving, playing}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()  # it only ends with an error
            result = await playing
        finally:
            serving.cancel()
            playing.cancel()
        if result is None or isinstance(result, dict):
            return result
        return _rewarded(calls, result)


async def _serve(
    engine: InferenceEngine,
    obs_queue: "asyncio.Queue[Observation]",
    act_queue: "asyncio.Queue[BundledGenerationOutputs]",
    calls: list[ModelResponse],
) -> None:
    """Answer observations one after the other, without end."""
    while True:
        qid, ids, gconfig = await obs_queue.get()
        if gconfig.n_samples != 1:
            raise EnvironmentFailure(
                f"an agent asked for n_samples = {gconfig.n_samples}; request each separately (rollout.group_size "
                "plays K episodes)"
            )
        response = await engine.agenerate(ModelRequest(list(ids), gconfig, rid=str(qid)))
        calls.append(response)
        versions = response.output_versions or [engine.get_version()]
        await act_queue.put(
            BundledGenerationOutputs(
                str(qid), response.input_tokens, [response.output_tokens], [response.output_logprobs],
                [response.stop_reason == "length"], [versions[0]], [versions[-1]],
            )
        )  # fmt: skip


def _rewarded(calls: Sequence[ModelResponse], result: Sequence[float] | float) -> list[Interaction]:
    """Calls with their rewards; a single reward is that of the last call."""
    rewards = (
        [0.0] * (len(calls) - 1) + [result]
        if isinstance(result, int | float)
        else [float(reward) for reward in result]
    )
    if len(rewards) != len(calls):
        raise EnvironmentFailure(f"the agent made {len(calls)} calls and returned {len(rewards)} rewards")
    return [Interaction(call, reward) for call, reward in zip(calls, rewards, strict=True)]
