"""Every type that a config may name has what it names."""

from typing import get_args

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config import models
from training_core.llm.generation.factory import make_engine
from training_core.llm.generation.registry import ENGINES
from training_core.llm.generation.torch.config import Torch
from training_core.llm.generation.torch.engine import TorchEngine
from training_core.llm.learning.factory import make_learner
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Learner as Settings
from training_core.llm.learning.registry import LEARNERS


def test_types_are_those_of_the_config() -> None:
    for registry, configs, union in (
        (ENGINES, models.ENGINE_CONFIGS, models.Engine),
        (LEARNERS, models.LEARNER_CONFIGS, models.AnyLearner),
    ):
        offered = {section.model_fields["type"].default for section in get_args(get_args(union)[0])}
        assert set(registry) == set(configs) == offered
    assert set(ENGINES) == {"torch", "vllm", "openai"}
    assert set(LEARNERS) == {"torch", "deepspeed"}


def test_what_is_made_has_the_configs_settings() -> None:
    policy = models.Policy(engine=Torch(max_batch=7), learner=Settings(epochs=3))
    engine = make_engine(policy.engine, make_model(), TOKENIZER)
    assert isinstance(engine, TorchEngine)
    assert engine.max_batch == 7
    learner = make_learner(policy, AtGrpo(), make_model(), 4)
    assert isinstance(learner, Learner)
    assert learner.settings.epochs == 3
