"""What AReaL's guide "Rollout and Agentic RL" tells its readers to write, word for word; only the imports are ours.

The guide gives the methods in pieces, which stand here in its order. Annotations are left out nowhere, comments neither.
"""

# mypy: ignore-errors
# ruff: noqa
# fmt: off

import asyncio
import uuid
from typing import List, Tuple

import torch
from transformers import PreTrainedTokenizerFast

from training_core.llm.rollout_workflows.areal import (
    Agent,
    BundledGenerationOutputs,
    EnvironmentService,
    GenerationHyperparameters,
    InferenceEngine,
    LLMRequest,
    RolloutWorkflow,
    concat_padded_tensors,
)


class MultiTurnWorkflow(RolloutWorkflow):
    def __init__(
        self,
        reward_fn,
        gconfig: GenerationHyperparameters,  # aka sampling_params
        tokenizer: PreTrainedTokenizerFast,
        max_turns: int,
        turn_discount: float,
    ):
        self.reward_fn = reward_fn
        self.gconfig = gconfig
        self.tokenizer = tokenizer
        self.max_turns = max_turns
        # Discount rewards if the agent takes longer to find the correct answer
        self.turn_discount = turn_discount

    async def arun_episode(self, engine: InferenceEngine, data):
        # Initialize result containers
        seq, logprobs, loss_mask, versions = [], [], [], []
        messages = data["messages"]
        # Run multi-turn rollout until we get the correct answer
        t = reward = 0
        discount = 1.0
        rid = uuid.uuid4().hex
        while reward == 0 and t < self.max_turns:
            # Add feedback if the previous answer was incorrect
            if t > 0:
                messages += [
                    {"role": "assistant", "content": completions_str},
                    {"role": "user", "content": "Your answer is not correct. Please try to answer it again."},
                ]
            # Convert the conversation into input tokens
            input_ids = self.tokenizer.apply_chat_template(
                messages,
                tokenize=True,
                add_generation_prompt=True,
            )
            # Generate response from the model
            req = LLMRequest(
                rid=rid,
                input_ids=input_ids,
                gconfig=self.gconfig.new(n_samples=1),
            )
            resp = await engine.agenerate(req)
            # Evaluate the response
            prompt_str = self.tokenizer.decode(input_ids)
            completions_str = self.tokenizer.decode(resp.output_tokens)
            reward = self.reward_fn(
                prompt=prompt_str,
                completions=completions_str,
                prompt_ids=resp.input_tokens,
                completion_ids=resp.output_tokens,
                **data,
            )
            # Update counters
            t += 1
            discount *= self.turn_discount
            # Collect trajectory data
            input_len = len(resp.input_tokens) - len(seq)
            seq += resp.input_tokens[-input_len:] + resp.output_tokens
            logprobs += [0.0] * input_len + resp.output_logprobs
            loss_mask += [0] * input_len + [1] * resp.output_len
            versions += [-1] * input_len + resp.output_versions

        # Package results
        res = dict(
            input_ids=torch.tensor(seq),
            logprobs=torch.tensor(logprobs),
            loss_mask=torch.tensor(loss_mask),
            versions=torch.tensor(versions),
            rewards=torch.tensor(float(reward * discount)),
            attention_mask=torch.ones(len(seq), dtype=torch.bool),
        )
        res = {k: v.unsqueeze(0) for k, v in res.items()}
        return concat_padded_tensors([res])


def reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: List[int],
    completion_ids: List[int],
    **kwargs,
):
    """The guide's signature; the task is a toy: say the label."""
    return float(str(kwargs["label"]) in completions.split())


class MathCodeSingleStepEnv(EnvironmentService):
    async def step(self, action: Tuple[str, List[str]]):
        qid, answers = action
        # Run reward computation asynchronously
        format_rewards = await asyncio.to_thread(
            lambda: [float("north" in answer.split()) for answer in answers],
        )
        return None, format_rewards, True, False, {}


class MathMultiTurnAgent(Agent):
    def __init__(
        self, gconfig: GenerationHyperparameters, tokenizer: PreTrainedTokenizerFast, num_turns: int
    ):
        self.gconfig, self.tokenizer, self.num_turns = gconfig, tokenizer, num_turns

    async def collect_trajectory(self, prompt, env, obs_queue, act_queue):
        qid, rewards = prompt["id"], []
        token_ids = self.tokenizer.apply_chat_template(
            prompt["messages"], tokenize=True, add_generation_prompt=True
        )
        for turn in range(self.num_turns):
            # Send the current state to the inference engine
            await obs_queue.put((qid, token_ids, self.gconfig))

            # Get the generated response
            act: BundledGenerationOutputs = await act_queue.get()

            # Evaluate the response through the environment
            answers = [self.tokenizer.decode(act.output_ids[0])]
            _, success, *_ = await env.step((qid, answers))
            rewards.append(success[0])
            token_ids = list(act.seqs[0])

            # Provide feedback based on the result
            if success[0]:
                feedback = "Congratulations! You are correct!"
            else:
                feedback = "Unfortunately your answer is wrong. Let's try again."

            # Format feedback as a user message
            feedback = "\n" + self.tokenizer.apply_chat_template(
                [{"content": feedback, "role": "user"}],
                add_generation_prompt=True,
                tokenize=False,
            )

            # Add feedback tokens to the conversation
            feedback_tokens = self.tokenizer(feedback)["input_ids"]
            token_ids.extend(feedback_tokens)
        return rewards


class WithoutVersions(MultiTurnWorkflow):
    """Tells no versions, and trains on the last answer alone."""

    async def arun_episode(self, engine, data):
        result = await super().arun_episode(engine, data)
        mask = result["loss_mask"][0].tolist()
        first = max((place for place in range(1, len(mask)) if mask[place] > mask[place - 1]), default=0)
        result["loss_mask"][0, :first] = 0
        del result["versions"]
        return result


class Spoilt(MultiTurnWorkflow):
    """Returns what cannot be learnt from, each task in its own way."""

    async def arun_episode(self, engine, data):
        result = await super().arun_episode(engine, data)
        kind = data["number"] % 4
        if kind == 0:
            result["input_ids"][0, -1] = 10**6
        if kind == 1:
            result["rewards"][0] = float("nan")
        if kind == 2:
            result["loss_mask"][0, 1] = 1
            result["versions"][0, 1:] = 99
        return result
