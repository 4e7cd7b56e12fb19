"""Rollout workflows whose episodes end without a result: rejected or truncated, but not failed."""

from dataclasses import replace
from typing import Any

import pytest

from tests.training_core.llm.workflows.counting import TOKENIZER, Recorder, make_context
from training_core.errors import NoReward
from training_core.llm.generation.base import NO_ROOM, SamplingSettings
from training_core.llm.rollout_workflows.api import (
    GenerationHyperparameters,
    Interaction,
    ModelRequest,
    RolloutWorkflow,
)
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine
from training_core.llm.workflows.rollout_workflow import play_rollout_workflows
from training_core.types import Answer, Prompt


class Unjudged(RolloutWorkflow):
    """Its reward function does not apply to task 2."""

    def __init__(self, gconfig: GenerationHyperparameters) -> None:
        self.gconfig = gconfig

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> list[Interaction]:
        ids = TOKENIZER(data["observations"]["planner"])["input_ids"]
        response = await engine.agenerate(ModelRequest(ids, self.gconfig))
        if data["number"] == 2:
            raise NoReward("None")
        return [Interaction(response, 1.0)]


def full(prompts: list[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
    """No room in task 1."""
    answers = Recorder(lambda seen, prompt, index: "1")(prompts, settings)
    texts = [TOKENIZER.decode(prompt.token_ids) for prompt in prompts]
    return [[NO_ROOM] if "task 1" in text else own for text, own in zip(texts, answers, strict=True)]


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_an_episode_without_room_or_reward_is_left_out_and_not_failed(kind: Any) -> None:
    path = {"workflow__type": "rollout_workflow", "workflow__path": f"{__name__}:Unjudged"}
    context = make_context(
        {"planner": full, "executor": full}, resources__environments_per_worker=192, **path
    )
    tokenizers = {"planner": TOKENIZER, "executor": TOKENIZER}
    episodes = play_rollout_workflows([1, 2, 3], replace(context, tokenizers=tokenizers), kind)
    assert not [episode.error for episode in episodes if episode.failed]
    found = {(each.task[-1], bool(each.overlong), each.unscored, len(each.turns)) for each in episodes}
    assert found == {("1", True, 0, 0), ("2", False, 1, 0), ("3", False, 0, 1)}
