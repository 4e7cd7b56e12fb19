"""The steps of REINFORCE++."""

from training_core.algorithms.advantages import Floats
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards


class TokenReturnsHooks(AlgorithmHooks):
    """Statistics of the batch are over tokens, because every token is an action."""

    def reward_weights(self, compared: ComparedRewards) -> Floats | None:
        return compared.tokens
