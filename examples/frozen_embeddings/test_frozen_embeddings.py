"""frozen_embeddings: the embeddings stay, and other weights change."""

import torch

from examples.frozen_embeddings.config import FrozenEmbeddings
from examples.frozen_embeddings.frozen_embeddings import FrozenEmbeddingsLearner
from tests.training_core.llm.toys import make_group, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy


def test_an_update_keeps_the_embeddings() -> None:
    model, before = make_model(), make_model().state_dict()
    policy = Policy().model_copy(update={"learner": FrozenEmbeddings()})
    learner = FrozenEmbeddingsLearner(policy, AtGrpo(), model, 1)
    learner.update([make_group(model, [6, 7], [[8, 2], [9, 2]], [1.0, -1.0])], 1, 0)
    changed = {name for name, weight in learner.weights().items() if not torch.equal(weight, before[name])}
    assert changed and not [name for name in changed if "embed_tokens" in name]
