"""Fields of language models' algorithms."""

from training_core.algorithms.policy_gradient_config import PolicyGradient
from training_core.config.algorithms import ALGORITHM_CONFIGS
from training_core.config.effects.language_models import config_of
from training_core.config.effects.rules import (
    Effects,
    Place,
    Rule,
    always,
    both,
    needs,
    own_fields,
    unless,
    where,
)
from training_core.config.rollout import RolloutBuffer, RolloutWorkflow, TurnTree


def _pays_roles(at: Place) -> str:
    """Whether roles get rewards of their own."""
    workflow = config_of(at).workflow
    if isinstance(workflow, RolloutBuffer | RolloutWorkflow):
        return f'workflow.type = "{workflow.type}" has one reward, the team reward (team_weight)'
    return ""


def _takes_deviation(at: Place) -> str:
    algorithm = at.section
    filtered = algorithm.group_filter == "std"
    if algorithm.std_level != "none" or algorithm.batch_whitening or filtered:
        return ""
    return 'no standard deviation is computed (std_level = "none", batch_whitening = false)'


def _reshape(at: Place) -> str:
    """Scaling or shifting a whole group has no effect if its mean is subtracted and its deviation divides."""
    algorithm, workflow = at.section, at.config.workflow  # type: ignore[attr-defined]
    if isinstance(workflow, RolloutBuffer) and algorithm.reshape in ("discount", "turn_weighted"):
        return "a buffer record has one turn"
    undone = algorithm.std_level == algorithm.mean_level == "group" and algorithm.group_filter == "none"
    if (
        isinstance(workflow, TurnTree)
        and undone
        and algorithm.reshape in ("discount", "turn_weighted", "shaped")
    ):
        return 'it scales or shifts whole groups, which std_level = "group" cancels; use another std_level'
    return ""


def _shape_of(*values: str) -> Rule:
    return both(where("reshape", *values), _reshape)


def _soft_limit(at: Place) -> str:
    some = at.section.overlong_tokens or at.section.overlong_share
    return "" if some else "only with overlong_share or overlong_tokens above 0"


def _share(at: Place) -> str:
    return "overlong_tokens replaces it" if at.section.overlong_tokens else ""


def _corrects(at: Place) -> str:
    workflow = at.config.workflow  # type: ignore[attr-defined]
    if isinstance(workflow, RolloutBuffer):
        return "buffer records have no logprobs of their sampler, so every weight is 1"
    return ""


_FILTERS = where("group_filter", "mean", "std")
ALGORITHMS: Effects = {
    PolicyGradient: always(
        "type team_weight mean_level std_level batch_whitening policy_loss entropy_coefficient kl_coefficient loss_average "
        "drop_zero_variance group_filter"
    )
    | needs("local_weight", _pays_roles)
    | needs("leave_one_out", unless("mean_level", "none"))
    | needs("unbiased_std", _takes_deviation)
    | needs("clip_low clip_high", unless("policy_loss", "reinforce"))
    | needs("dual_clip", where("policy_loss", "clip", "sequence_clip"))
    | needs("kl_estimator kl_in", unless("kl_coefficient", 0.0))
    | needs("filter_low filter_high filter_ratio", _FILTERS)
    | needs("reshape", _reshape)
    | needs("reshape_discount", _shape_of("discount", "shaped"))
    | needs("reshape_threshold", where("reshape", "binary"))
    | needs("reshape_weight", _shape_of("shaped"))
    | needs("overlong_share", _share)
    | always("overlong_tokens")
    | needs("overlong_penalty", _soft_limit)
    | needs("correction", _corrects)
    | needs("correction_cap", both(unless("correction", "none"), _corrects))
    | needs("correction_floor", both(where("correction", "mask"), _corrects)),
    **{section: own_fields(section, PolicyGradient) for section in ALGORITHM_CONFIGS.values()},
}
