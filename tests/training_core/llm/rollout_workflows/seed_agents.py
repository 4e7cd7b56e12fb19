"""What users bring, written against AReaL's interfaces: its multi-turn workflow, and one that fails.

The task is a toy: "goal north" asks for "north", so that a word model can learn it.
"""

from typing import Any

import torch

from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    new_id,
)
from training_core.llm.rollout_workflows.areal import AsyncRewardWrapper
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors


def says_label(
    prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any
) -> float:
    """1 for an answer that is the label."""
    return float(completions.strip() == str(data["label"]))


class Trajectory:
    """Calls that continue one another, collected as AReaL's workflows do."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._columns: dict[str, list[Any]] = {"logprobs": [], "loss_mask": [], "versions": []}

    def add(self, response: ModelResponse) -> None:
        """Append what a call was asked after the calls before, and its answer."""
        new = response.input_len - len(self.ids)
        self.ids += response.input_tokens[-new:] + response.output_tokens
        self._columns["logprobs"] += [0.0] * new + response.output_logprobs
        self._columns["loss_mask"] += [0] * new + [1] * response.output_len
        self._columns["versions"] += [-1] * new + response.output_versions

    def tensors(self, reward: float) -> Any:
        """The result of an episode."""
        columns = {
            name: torch.tensor(values) for name, values in ({"input_ids": self.ids} | self._columns).items()
        }
        columns |= {
            "rewards": torch.tensor(reward),
            "attention_mask": torch.ones(len(self.ids), dtype=torch.bool),
        }
        return concat_padded_tensors([{name: column.unsqueeze(0) for name, column in columns.items()}])


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
        self.reward_fn, self.gconfig, self.tokenizer = AsyncRewardWrapper(reward_fn), gconfig, tokenizer
        self.max_turns, self.turn_discount = max_turns, turn_discount

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        talk, rid = Trajectory(), new_id()
        asked = self.tokenizer.apply_chat_template(
            data["messages"], add_generation_prompt=True, tokenize=True
        )
        ids = list(asked["input_ids"])
        for turn in range(self.max_turns):
            response = await engine.agenerate(ModelRequest(ids, self.gconfig.new(n_samples=1), rid))
            talk.add(response)
            said = self.tokenizer.decode(response.output_tokens, skip_special_tokens=True)
            tokens = {"prompt_ids": response.input_tokens, "completion_ids": response.output_tokens}
            reward = await self.reward_fn(prompt="", completions=said, label=data["label"], **tokens)
            if reward:
                return talk.tensors(reward * self.turn_discount**turn)
            stuck = self.tokenizer("<user> stuck <assistant>", add_special_tokens=False)
            ids = [*talk.ids, *stuck["input_ids"]]
        return talk.tensors(0.0)


class Failing(RolloutWorkflow):
    """Raises on odd tasks, rejects every fourth, returns what is none of the known forms on the next one."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        if data["number"] % 2:
            raise RuntimeError("the tool is down")
        return None if data["number"] % 4 == 0 else "nonsense"
