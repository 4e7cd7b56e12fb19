"""The learner that keeps the embeddings."""

from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import Optimisation
from training_core.llm.learning.optimiser import Optimiser


class FrozenEmbeddingsLearner(Learner):
    """The torch learner; its optimiser has no moments for the embeddings."""

    def _make_optimiser(self, settings: Optimisation) -> Optimiser:
        self.model.get_input_embeddings().requires_grad_(False)
        return super()._make_optimiser(settings)
