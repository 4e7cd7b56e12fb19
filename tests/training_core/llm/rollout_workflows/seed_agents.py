"""What users bring, written against AReaL's interfaces: its multi-turn workflow, and its older agent with queues.

The task is a toy: "goal north" asks for "north", so that a word model can learn it.
"""

import asyncio
from typing import Any

import torch

from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    ModelRequest,
    RolloutWorkflow,
    new_id,
)
from training_core.llm.rollout_workflows.areal import Agent, AsyncRewardWrapper, EnvironmentService
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors


def says_label(
    prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any
) -> float:
    """1 for an answer that is the label."""
    return float(completions.strip() == str(data["label"]))


class MultiTurnWorkflow(RolloutWorkflow):
    """Answer, hear that it was wrong, answer again; each further turn is worth turn_discount of the one before."""

    def __init__(
        self,
        reward_fn: Any,
        gconfig: GenerationHyperparameters,
        tokenizer: Any,
        max_turns: int,
        turn_discount: float,
    ):
        self.reward_fn = AsyncRewardWrapper(reward_fn)
        self.gconfig = gconfig
        self.tokenizer = tokenizer
        self.max_turns = max_turns
        self.turn_discount = turn_discount

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        seq: list[int] = []
        logprobs: list[float] = []
        loss_mask: list[int] = []
        versions: list[int] = []
        reward, discount, rid = 0.0, 1.0, new_id()
        encoded = self.tokenizer.apply_chat_template(
            data["messages"], add_generation_prompt=True, tokenize=True
        )
        input_ids = list(encoded["input_ids"])
        for turn in range(self.max_turns):
            if turn:
                discount *= self.turn_discount
                input_ids = [
                    *seq,
                    *self.tokenizer("<user> stuck <assistant>", add_special_tokens=False)["input_ids"],
                ]
            request = ModelRequest(input_ids, self.gconfig.new(n_samples=1), rid)
            response = await engine.agenerate(request)
            new = response.input_len - len(seq)
            seq += response.input_tokens[-new:] + response.output_tokens
            logprobs += [0.0] * new + response.output_logprobs
            loss_mask += [0] * new + [1] * response.output_len
            versions += [-1] * new + response.output_versions
            said = self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)
            reward = await self.reward_fn(
                prompt="", completions=said, prompt_ids=response.input_tokens, completion_ids=response.output_tokens,
                label=data["label"],
            )  # fmt: skip
            if reward:
                break
        result = {
            "input_ids": torch.tensor(seq),
            "logprobs": torch.tensor(logprobs),
            "loss_mask": torch.tensor(loss_mask),
            "versions": torch.tensor(versions),
            "rewards": torch.tensor(reward * discount),
            "attention_mask": torch.ones(len(seq), dtype=torch.bool),
        }
        return concat_padded_tensors([{key: value.unsqueeze(0) for key, value in result.items()}])


class MathCodeSingleStepEnv(EnvironmentService):
    """Judges an answer, and is over."""

    async def step(self, action: tuple[str, list[str]]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        label, answers = action
        rewards = await asyncio.to_thread(lambda: [float(answer.strip() == label) for answer in answers])
        return None, rewards, True, False, {}


class MathMultiTurnAgent(Agent):
    """Tries again until it is right, telling by queues what it wants generated."""

    def __init__(
        self, gconfig: GenerationHyperparameters, tokenizer: Any, num_turns: int, my_param: float = 1.0
    ) -> None:
        self.gconfig = gconfig
        self.tokenizer = tokenizer
        self.num_turns = num_turns
        self.my_param = my_param

    async def collect_trajectory(self, prompt: Any, env: Any, obs_queue: Any, act_queue: Any) -> Any:
        await env.reset()
        encoded = self.tokenizer.apply_chat_template(
            prompt["messages"], add_generation_prompt=True, tokenize=True
        )
        token_ids = list(encoded["input_ids"])
        rewards = []
        for _ in range(self.num_turns):
            await obs_queue.put((prompt["id"], token_ids, self.gconfig))
            act = await act_queue.get()
            answer = self.tokenizer.decode(act.output_ids[0], skip_special_tokens=True)
            _, success, *_ = await env.step((prompt["label"], [answer]))
            rewards.append(self.my_param * success[0])
            token_ids = list(act.seqs[0])
            if success[0]:
                break
            token_ids.extend(
                self.tokenizer("<user> stuck <assistant>", add_special_tokens=False)["input_ids"]
            )
        return rewards


class Failing(RolloutWorkflow):
    """Raises on odd tasks, rejects every fourth, returns what is none of the known forms on the next one."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        if data["number"] % 2:
            raise RuntimeError("the tool is down")
        return None if data["number"] % 4 == 0 else "nonsense"
