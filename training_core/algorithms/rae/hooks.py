"""The steps of RAE."""

from training_core.algorithms.advantages import Floats
from training_core.algorithms.hooks import AlgorithmHooks, ComparedRewards
from training_core.algorithms.rae.config import Rae
from training_core.algorithms.rae.role_baselines import role_advantages


class RaeHooks(AlgorithmHooks):
    """Advantages are the distance of rewards from a baseline of their role."""

    algorithm: Rae

    def normalised(self, compared: ComparedRewards, baselines: dict[str, float]) -> Floats:
        roles = [compared.roles[group] for group in compared.groups]
        advantages, after = role_advantages(
            super().normalised(compared, baselines), roles, baselines, self.algorithm.baseline_decay
        )
        baselines.update(after)
        return advantages

    def penalised_advantages(
        self, compared: ComparedRewards, penalised: Floats, advantages: Floats
    ) -> Floats:
        return advantages - (compared.rewards - penalised)  # baselines follow the original rewards
