"""Engine and learner with a model on another device than the CPU: no operation mixes devices."""

from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from tests.training_core.llm.toys import TOKENIZER, make_group, make_model
from tests.training_core.marl.other_device import META, MadeUp
from training_core.algorithms.config import AtGrpo, Grpo, Gspo
from training_core.config.models import Policy
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning import optimiser
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as LearnerSettings
from training_core.llm.learning.token_logprobs import ResponseForward
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import add_adapter
from training_core.types import Group, NoiseKey, Prompt

PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 3, NoiseKey(0, 0, 1, 0, 0, 0), rid="a"),
    Prompt([11, 12], 2, NoiseKey(0, 0, 1, 1, 0, 0)),
]
ALGORITHMS = {
    "at_grpo": AtGrpo(kl_coefficient=0.1, entropy_coefficient=0.01),
    "kl in the reward": Grpo(kl_coefficient=0.1, kl_in="reward"),
    "correction": Grpo(kl_coefficient=0.0, correction="decoupled"),
    "sequence ratios": Gspo(kl_coefficient=0.0),
}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials compare made-up numbers there, so their results are set; the fused Adam does not know the device."""
    for name, result in {"packs": True, "splits": True, "blocks": False}.items():
        monkeypatch.setattr(ResponseForward, name, result)
    adam = torch.optim.AdamW
    monkeypatch.setattr(
        optimiser.torch.optim, "AdamW", lambda *args, fused, **settings: adam(*args, **settings)
    )


def made_there() -> PreTrainedModel:
    return make_model().to(META)


def groups() -> list[Group]:
    here = make_model()
    return [
        make_group(here, [6, 7, 8], [[9, 10], [9, 11, 12], [7]], [1.0, -0.5, -0.5]),
        make_group(here, [6, 7], [[8, 8], [9]], [1.0, -1.0], temperature=0.7),
    ]


@pytest.mark.parametrize("trees", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("settings", [{}, {"top_p": 0.9, "top_k": 5, "temperature": 0.7}, {"greedy": True}])
def test_generation_stays_on_the_device(trees: bool, static: bool, settings: dict[str, Any]) -> None:
    with MadeUp():
        engine = TorchEngine(made_there(), TOKENIZER, static=static)
        engine.tree_support = trees
        for _ in range(2):  # the second call continues cached conversations
            answers = engine.generate(PROMPTS, SamplingSettings(max_tokens=4, **settings))
        engine.load_weights({name: part.to(META) for name, part in make_model().state_dict().items()}, 1)
    assert [len(candidates) for candidates in answers] == [3, 2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("adapter", [True, pytest.param(False, marks=pytest.mark.extended)])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.extended)])
def test_updates_stay_on_the_device(elsewhere: None, algorithm: str, adapter: bool, precision: str) -> None:
    settings = LearnerSettings(minibatches=2, precision=precision)
    lora = Lora(rank=2, dropout=0.1)
    with MadeUp():
        model = made_there().to(torch.bfloat16 if precision == "bf16" else torch.float32)
        if adapter:
            add_adapter(model, lora, 0)
        policy = Policy(learner=settings, adapter=lora) if adapter else Policy(learner=settings)
        learner = Learner(policy, ALGORITHMS[algorithm], model, 3)
        result = learner.update(groups(), 1, 0, set())
        learner.load_state_dict(learner.state_dict())
    assert result.metrics["trained_groups"] == 2
    assert {weight.device for weight in learner.optimiser.masters} == {META}
