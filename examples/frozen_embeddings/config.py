"""The config of the learner that keeps the embeddings."""

from typing import Literal

from training_core.llm.learning.learner_config import Optimisation


class FrozenEmbeddings(Optimisation):
    """Updates by torch of all weights except the input embeddings."""

    type: Literal["frozen_embeddings"] = "frozen_embeddings"
    """Input embeddings stay those of the base model, and the output layer too if it shares their weights."""
