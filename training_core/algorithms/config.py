"""Config classes of language models' algorithms: the fields that all of them have, with the defaults of AT-GRPO, and one class for each
`type` with the defaults of its paper. Every field may be set for every algorithm, so a variant needs no code.
"""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import Arguments, Section, cross_field
from training_core.config.effects import (
    Effects,
    Place,
    at_most,
    both,
    needs,
    only_if,
    shortest_answer,
    team_reward,
    unless,
    where,
)
from training_core.importing import IMPORT_PATH

Level = Literal["group", "batch", "none"]


def _reshape(at: Place) -> str:
    """Scaling or shifting a whole group has no effect if its mean is subtracted and its deviation divides."""
    algorithm, workflow = at.section, at.config.workflow.type
    if workflow == "rollout_buffer" and algorithm.reshape in ("discount", "turn_weighted"):
        return "a buffer record has one turn"
    undone = algorithm.std_level == algorithm.mean_level == "group" and algorithm.group_filter == "none"
    if workflow == "turn_tree" and undone and algorithm.reshape in ("discount", "turn_weighted", "shaped"):
        return 'it scales or shifts whole groups, which std_level = "group" cancels; use another std_level'
    return ""


def _pays_roles(at: Place) -> str:
    workflow = at.config.workflow.type
    one = workflow in ("rollout_buffer", "rollout_workflow")
    return f'workflow.type = "{workflow}" has one reward, the team reward (team_weight)' if one else ""


_has_others = only_if(lambda at: len(at.config.team.roles) > 1, "the team has one role")
_takes_deviation = only_if(
    lambda at: (
        at.section.std_level != "none" or at.section.batch_whitening or at.section.group_filter == "std"
    ),
    'no standard deviation is computed (std_level = "none", batch_whitening = false)',
)
_corrects = only_if(
    lambda at: at.config.workflow.type != "rollout_buffer",
    "buffer records have no logprobs of their sampler, so every weight is 1",
)


def _bounds_what_has_moved(at: Place) -> str:
    bound, least = at.section.dual_clip, 1.0 + at.section.clip_high
    if not 0 < bound <= least:
        return ""
    return (
        f"{bound:g} is not above 1 + clip_high = {least:g}: it also bounds tokens whose probability has hardly changed, so that "
        "answers below the mean are not unlearnt; set it higher, or 0"
    )


class PolicyGradient(Section):
    """Settings shared by all policy-gradient algorithms. A subclass gives other defaults as arguments of its class statement."""

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(cls, **defaults: Any) -> None:
        for name, default in defaults.items():
            cls.model_fields[name].default = default
        if defaults:
            cls.model_rebuild(force=True)

    orders: ClassVar[Effects] = {
        "dual_clip": _bounds_what_has_moved,
        "overlong_tokens": at_most(
            "overlong_tokens",
            shortest_answer,
            "the smallest sampling.max_tokens",
            "the shortest answers have a penalty, too; set it lower",
        ),
    }
    effects: ClassVar[Effects] = {
        "local_weight": _pays_roles,
        "team_reward_to": both(_has_others, team_reward),
        "leave_one_out": unless("mean_level", "none"),
        "unbiased_std": _takes_deviation,
        **needs("clip_low clip_high", unless("policy_loss", "reinforce")),
        "dual_clip": where("policy_loss", "clip", "sequence_clip"),
        **needs("kl_estimator kl_in", unless("kl_coefficient", 0.0)),
        **needs("filter_low filter_high filter_ratio", where("group_filter", "mean", "std")),
        "reshape": _reshape,
        "reshape_discount": both(where("reshape", "discount", "shaped"), _reshape),
        "reshape_threshold": where("reshape", "binary"),
        "reshape_weight": both(where("reshape", "shaped"), _reshape),
        "overlong_share": only_if(lambda at: not at.section.overlong_tokens, "overlong_tokens replaces it"),
        "overlong_penalty": only_if(
            lambda at: at.section.overlong_tokens or at.section.overlong_share,
            "only with overlong_share or overlong_tokens above 0",
        ),
        "correction": _corrects,
        "correction_cap": both(unless("correction", "none"), _corrects),
        "correction_floor": both(where("correction", "mask"), _corrects),
    }
    type: str
    """The algorithm."""
    team_weight: float = Field(1.0, ge=0.0)
    """Alpha: weight of the team's reward in a candidate's reward."""
    local_weight: float = Field(1.0, ge=0.0)
    """Beta: weight of the role's local reward in a candidate's reward."""
    team_reward_to: Literal["team", "speaker"] = "team"
    """Roles that earn the team's reward of an answer: all of the team, the others on their last turns, or only the one that
    answered.
    """
    mean_level: Level = "group"
    """Set over which the mean that is subtracted from rewards is computed."""
    std_level: Level = "group"
    """Set over which the standard deviation that divides advantages is computed; a group without variance has advantage 0."""
    leave_one_out: bool = False
    """Exclude a candidate's own reward from its mean."""
    unbiased_std: bool = True
    """Standard deviations divide by n - 1 (torch's default); false divides by n (numpy's)."""
    batch_whitening: bool = False
    """Normalise advantages again, by mean and standard deviation over the policy's batch."""
    policy_loss: Literal["clip", "sequence_clip", "cispo", "reinforce"] = Field(
        "clip",
        description="Per token: PPO's clipped ratio, the clipped ratio of the whole sequence (GSPO), clipped weights"
        " on a REINFORCE loss (CISPO), or plain REINFORCE.",
    )
    clip_low: float = Field(0.2, ge=0.0, le=1.0)
    """Lower clip of the probability ratio: 1 - clip_low."""
    clip_high: float = Field(0.2, ge=0.0)
    """Upper clip of the probability ratio: 1 + clip_high."""
    dual_clip: float = Field(3.0, ge=0.0)
    """Bound on the loss of tokens with negative advantage, as a multiple of the advantage; 0 disables."""
    entropy_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the entropy bonus in the loss; 0 disables."""
    kl_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the KL divergence from the base model; 0 disables (and saves its forward pass)."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of the KL divergence (Schulman, "Approximating KL divergence")."""
    kl_in: Literal["loss", "reward"] = Field(
        "loss",
        description="loss: a differentiated loss term; reward: subtracted from rewards before normalisation, once "
        "per response, or from the returns of each token and those before it (REINFORCE++, PPO).",
    )
    loss_average: Literal["token", "sequence", "constant"] = Field(
        "token",
        description="token: mean over a minibatch's tokens; sequence: mean per response first; constant: the sum "
        "divided by responses x the role's max_tokens.",
    )
    drop_zero_variance: bool = Field(
        True,
        description="Exclude groups of equal rewards from the loss (metrics count them either way). False includes "
        "them: with advantage 0 if mean or deviation is computed per group, otherwise with their "
        "advantage within the batch.",
    )
    group_filter: Literal["none", "mean", "std"] = "none"
    """Exclude groups from the loss by their rewards' mean or standard deviation; see filter_low, filter_high, filter_ratio."""
    filter_low: float = 0.0
    """Groups whose mean or standard deviation is below this are excluded; used with group_filter."""
    filter_high: float = 1e6
    """Groups whose mean or standard deviation is above this are excluded; used with group_filter."""
    filter_ratio: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of a policy's remaining groups that is excluded, lowest first; used with group_filter."""
    reshape: Literal["none", "discount", "turn_weighted", "binary", "normalised", "shaped"] = "none"
    """Transformation of rewards before they are compared; curves and transcripts show the original rewards."""
    reshape_discount: float = Field(0.9, gt=0.0, le=1.0)
    """Gamma of reshape = "discount" (reward x gamma^(turn - 1)) and of "shaped"."""
    reshape_threshold: float = 0.0
    """reshape = "binary": rewards above are 1, others 0."""
    reshape_weight: float = Field(1.0, ge=0.0)
    """reshape = "shaped": weight of the improvement over the role's previous answer."""
    overlong_share: float = Field(0.0, ge=0.0, le=1.0)
    """Soft length limit: reward decreases linearly over this last share of a role's max_tokens; 0 disables."""
    overlong_tokens: int = Field(0, ge=0)
    """Soft limit as a number of tokens before max_tokens, instead of overlong_share; 0 uses overlong_share."""
    overlong_penalty: float = Field(1.0, ge=0.0)
    """Reward subtracted from a response that is truncated at max_tokens; used with a soft limit."""
    correction: Literal["none", "truncate", "mask", "decoupled"] = "none"
    """Weight tokens by trainer over sampler probability: truncated (TIS), masked beyond the bounds (IcePop), or as in decoupled PPO."""
    correction_cap: float = Field(2.0, gt=0.0)
    """Upper bound of the correction weight; weights above it are truncated, or their tokens are masked."""
    correction_floor: float = Field(0.5, ge=0.0)
    """Lower bound of the correction weight; only correction = "mask" masks tokens below it."""

    @cross_field
    def _bounds_are_in_order(self) -> Self:
        if self.correction == "mask" and self.correction_floor >= self.correction_cap:
            raise ValueError("correction_floor: must be below correction_cap")
        if self.filter_low > self.filter_high:
            raise ValueError("filter_low: must not be above filter_high")
        return self

    @property
    def leaves_groups_out(self) -> bool:
        """Whether a group can be excluded from the loss because of its rewards."""
        compared = "group" in (self.mean_level, self.std_level)
        return compared or self.drop_zero_variance or self.group_filter != "none"


class AtGrpo(PolicyGradient):
    """Agent- and turn-wise group-relative policy optimisation (AT-GRPO, arXiv 2510.11062)."""

    type: Literal["at_grpo"] = "at_grpo"
    """Groups are (task, agent, turn); candidates of a group share one state."""


class Grpo(PolicyGradient, dual_clip=0.0, loss_average="sequence", kl_coefficient=0.04):
    """Group-relative policy optimisation (GRPO, arXiv 2402.03300): K answers are compared with each other."""

    type: Literal["grpo"] = "grpo"
    """Rewards normalised within their group; a mean per response, then over responses; KL to the base model in the loss."""


class DrGrpo(PolicyGradient, std_level="none", dual_clip=0.0, loss_average="constant"):
    """GRPO without the bias towards long answers and easy groups (Dr. GRPO, arXiv 2503.20783)."""

    type: Literal["dr_grpo"] = "dr_grpo"
    """Rewards minus their group's mean, not divided; token losses divided by a constant length."""


class Dapo(PolicyGradient, clip_high=0.28, dual_clip=0.0, overlong_share=0.2):
    """Decoupled clip and dynamic sampling (DAPO, arXiv 2503.14476)."""

    type: Literal["dapo"] = "dapo"
    """A higher upper clip, a mean over tokens, no KL, groups without variance excluded, a soft limit on length."""


class Rloo(
    PolicyGradient,
    leave_one_out=True,
    std_level="none",
    policy_loss="reinforce",
    kl_coefficient=0.03,
    kl_estimator="k1",
    kl_in="reward",
):
    """REINFORCE with a leave-one-out baseline (RLOO, arXiv 2402.14740)."""

    type: Literal["rloo"] = "rloo"
    """Each answer's baseline is the mean of its group's other rewards; KL to the base model is part of the reward."""


class Gspo(
    PolicyGradient,
    policy_loss="sequence_clip",
    clip_low=3e-4,
    clip_high=4e-4,
    dual_clip=0.0,
    loss_average="sequence",
):
    """Group sequence policy optimisation: one ratio per sequence (GSPO, arXiv 2507.18071)."""

    type: Literal["gspo"] = "gspo"
    """The ratio of a response is the geometric mean of its tokens' ratios, clipped tightly; every response has the same weight."""


class Cispo(PolicyGradient, policy_loss="cispo", clip_low=1.0, clip_high=4.0, dual_clip=0.0):
    """Clipped importance weights on a REINFORCE loss: no token loses its gradient (CISPO, arXiv 2506.13585)."""

    type: Literal["cispo"] = "cispo"
    """The ratio is a weight without gradient, bounded above; every token contributes gradient."""


class TokenReturns(PolicyGradient):
    """Base of the two forms of REINFORCE++: a return for every token."""

    discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: discount of the reward per token; 1 gives all tokens of a response the same return."""


class ReinforcePlusPlus(
    TokenReturns,
    mean_level="batch",
    std_level="batch",
    dual_clip=0.0,
    drop_zero_variance=False,
    kl_coefficient=0.01,
    kl_estimator="k1",
    kl_in="reward",
):
    """PPO's clipped loss without a critic, normalised over the batch (REINFORCE++, arXiv 2501.03262)."""

    type: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    """Rewards normalised over the whole batch: a group of one is sufficient; KL to the base model is part of the reward."""


class ReinforcePlusPlusBaseline(
    TokenReturns,
    std_level="none",
    batch_whitening=True,
    dual_clip=0.0,
    kl_coefficient=0.01,
    kl_estimator="k2",
):
    """REINFORCE++ with the group's mean as baseline, then normalised over the batch (arXiv 2501.03262, section 4)."""

    type: Literal["reinforce_plus_plus_baseline"] = "reinforce_plus_plus_baseline"
    """Rewards minus their group's mean, then normalised over the batch; KL to the base model in the loss."""


class ActorCritic(PolicyGradient):
    """Base of algorithms with a critic: a value head on the policy's trunk, and advantages of tokens by GAE."""

    discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: discount of the reward per token."""
    gae_lambda: float = Field(0.95, ge=0.0, le=1.0)
    """0 relies on the values only (least variance), 1 on the observed returns only (no bias)."""
    whiten_advantages: bool = True
    """Normalise token advantages by mean and standard deviation over the policy's batch."""
    value_coefficient: float = Field(0.5, ge=0.0)
    """Weight of the value loss relative to the policy loss; both backpropagate through the shared trunk."""
    value_clip: float = Field(0.2, ge=0.0)
    """Value predictions are clipped to within this distance of those at the start of the update; 0 disables."""
    value_learning_rate: float = Field(1e-3, gt=0.0)
    """Constant learning rate of the value head's AdamW; the trunk uses the learner's."""

    @cross_field
    def _the_critic_sees_what_was_earned(self) -> Self:
        if "group" in (self.mean_level, self.std_level):
            raise ValueError(
                "mean_level, std_level: a critic predicts the reward of an answer, and a group of equal rewards "
                "would count as 0; use "
                '"none" or "batch"'
            )
        return self


class Ppo(
    ActorCritic,
    mean_level="none",
    std_level="none",
    dual_clip=0.0,
    drop_zero_variance=False,
    kl_estimator="k1",
    kl_in="reward",
):
    """Proximal policy optimisation with a critic (PPO, arXiv 1707.06347; GAE, arXiv 1506.02438)."""

    type: Literal["ppo"] = "ppo"
    """A value head on the policy's trunk; token advantages by GAE, the reward on the last token. A group of one is sufficient."""


class Rae(
    PolicyGradient,
    mean_level="none",
    std_level="none",
    dual_clip=0.0,
    loss_average="constant",
    drop_zero_variance=False,
):
    """Role-conditioned advantage estimation for self-play (RAE, SPIRAL, arXiv 2506.24119)."""

    type: Literal["rae"] = "rae"
    """Rewards minus a moving average of their role's rewards; stored in checkpoints. A group of one is sufficient."""
    baseline_decay: float = Field(0.95, ge=0.0, lt=1.0)
    """Decay of a role's baseline: each new reward has weight 1 - baseline_decay."""

    @cross_field
    def _kl_is_charged_before_normalisation(self) -> Self:
        normalised = self.batch_whitening or {self.mean_level, self.std_level} != {"none"}
        if self.kl_coefficient and self.kl_in == "reward" and normalised:
            raise ValueError(
                'kl_in: the baselines of "rae" are computed from rewards before the KL is known; use kl_in = "loss", or '
                'mean_level = std_level = "none" without batch_whitening'
            )
        return self


class CustomAlgorithm(PolicyGradient):
    """Custom algorithm: a class by import path reshapes rewards, computes advantages or defines the loss."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A subclass of AlgorithmHooks of training_core/algorithms/hooks.py."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class, a subclass of AlgorithmHooks that overrides `turn_rewards`, `group_rewards`, `advantages` or `policy_loss`."""
    args: Arguments = {}
    """Arguments that the class reads as `self.algorithm.args`."""
