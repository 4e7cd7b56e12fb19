"""An engine and a learner by the type in a policy's config."""

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config import models
from training_core.llm.generation.base import make_engine
from training_core.llm.generation.engine_config import Torch
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner, make_learner
from training_core.llm.learning.learner_config import Learner as Settings


def test_what_is_made_has_the_configs_settings() -> None:
    policy = models.Policy(engine=Torch(max_batch=7), learner=Settings(epochs=3))
    engine = make_engine(policy.engine, make_model(), TOKENIZER)
    assert isinstance(engine, TorchEngine)
    assert engine.max_batch == 7
    learner = make_learner(policy, AtGrpo(), make_model(), 4)
    assert isinstance(learner, Learner)
    assert learner.settings.epochs == 3
