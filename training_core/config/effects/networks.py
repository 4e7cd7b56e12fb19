"""Fields of small networks' configs."""

from training_core.config.base import Section
from training_core.config.effects.rules import Effects, Place, Rule, always, needs, own_fields, unless, where
from training_core.config.marl import (
    MarlConfig,
    MarlLearner,
    MarlPolicy,
    MarlResources,
    MarlRole,
    MarlRollout,
    MarlTeam,
)
from training_core.marl.algorithms.config import Mappo, MarlPpo
from training_core.marl.algorithms.registry import MARL_ALGORITHM_CONFIGS
from training_core.marl.environments.config import NativeMpe, SuperSuit
from training_core.marl.environments.registry import MARL_ENVIRONMENT_CONFIGS
from training_core.marl.networks.registry import NETWORK_CONFIGS


def _one_role_sees_all(at: Place) -> str:
    return (
        "" if len(at.config.team.roles) > 1 else 'with one role, "team" and "all" are the same observations'
    )


def _is_trained(at: Place) -> str:
    if at.name not in at.config.used_policies:
        return "no role uses this policy"
    return "" if at.name in at.config.trained_policies else "no role that uses this policy is trained"


def _is_used(at: Place) -> str:
    return "" if at.name in at.config.used_policies else "no role uses this policy"


def _native(at: Place) -> bool:
    environment = at.config.environment
    return isinstance(environment, NativeMpe) and environment.backend != "mpe2"


def _observations_differ(at: Place) -> str:
    environment = at.config.environment
    alike = _native(at) and len(environment.roles) == 1
    return f"all agents of {environment.type} have observations of the same size" if alike else ""


def _actions_differ(at: Place) -> str:
    return f"all agents of {at.config.environment.type} have the same actions" if _native(at) else ""


_ENVIRONMENTS: dict[type[Section], dict[str, Rule]] = {
    section: always(" ".join(section.model_fields)) for section in MARL_ENVIRONMENT_CONFIGS.values()
}
"""Every run steps its environment, so all fields of environments have an effect. A field with a condition needs a rule here."""
_NETWORKS: dict[type[Section], dict[str, Rule]] = {
    section: always(" ".join(section.model_fields)) | needs("identity_dim", where("share_parameters", True))
    for section in NETWORK_CONFIGS.values()
}
"""As of environments, for the fields of networks."""
NETWORKS: Effects = {
    MarlConfig: always(
        "run team policies environment algorithm rollout resources evaluation checkpoint reporting health"
    ),
    MarlTeam: always("roles"),
    MarlRole: always("policy trained"),
    MarlRollout: always("environments steps fresh"),
    MarlResources: always("cpus gpus threads environment_workers")
    | needs("environment_cpus", unless("environment_workers", 0)),
    MarlPpo: always(
        "type discount gae_lambda clip clip_value target_kl entropy_coefficient value_coefficient normalise_advantages "
        "normalise_values bootstrap_truncated"
    )
    | needs("value_clip", where("clip_value", True)),
    **{section: own_fields(section, MarlPpo) for section in MARL_ALGORITHM_CONFIGS.values()},
    Mappo: own_fields(Mappo, MarlPpo) | needs("critic_sees", _one_role_sees_all),
    MarlPolicy: needs("network", _is_used) | needs("learner", _is_trained),
    MarlLearner: always(
        "actor_learning_rate critic_learning_rate weight_decay schedule max_grad_norm epochs minibatch_size precision compile"
    ),
    SuperSuit: always("normalise_observations frame_stack")
    | needs("pad_observations", _observations_differ)
    | needs("pad_action_space", _actions_differ),
    **_NETWORKS,
    **_ENVIRONMENTS,
}
