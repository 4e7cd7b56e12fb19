"""The learner of a policy's config."""

from transformers import PreTrainedModel

from training_core.algorithms.registry import Algorithm
from training_core.importing import resolve
from training_core.llm.learning.learner import Learner
from training_core.llm.learning.learner_config import TrainedPolicy
from training_core.llm.learning.processes import SINGLE_PROCESS, Processes
from training_core.llm.learning.registry import LEARNERS

FOLDER = __name__.rpartition(".")[0]


def make_learner(
    policy: TrainedPolicy,
    algorithm: Algorithm,
    model: PreTrainedModel,
    iterations: int,
    staleness: int = 0,
    processes: Processes = SINGLE_PROCESS,
    seed: int = 0,
) -> Learner:
    """The learner for a policy's config. `seed` is that of the run and the policy."""
    make = resolve(f"{FOLDER}.{LEARNERS[policy.learner.type].learner}")
    learner: Learner = make(policy, algorithm, model, iterations, staleness, processes, seed)
    return learner
