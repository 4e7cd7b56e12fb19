"""Algorithms by `type`: one set of fields, and per algorithm the settings that make it that algorithm.

Each class states its paper's settings as defaults; every field may be set for every algorithm, so a custom variant
needs no code.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import Section

Level = Literal["group", "batch", "none"]

# Fields whose default differs from algorithm to algorithm.
StdLevel = Annotated[
    Level,
    Field(
        description="Set over which the standard deviation that divides advantages is computed; a group without "
        "variance has advantage 0."
    ),
]
MeanLevel = Annotated[
    Level, Field(description="Set over which the mean that is subtracted from rewards is computed.")
]
LeaveOneOut = Annotated[bool, Field(description="Exclude a candidate's own reward from its mean.")]
Whitening = Annotated[
    bool,
    Field(description="Normalise advantages again, by mean and standard deviation over the policy's batch."),
]
PolicyLoss = Annotated[
    Literal["clip", "sequence_clip", "cispo", "reinforce"],
    Field(
        description="Per token: PPO's clipped ratio, the clipped ratio of the whole sequence (GSPO), "
        "clipped weights on a REINFORCE loss (CISPO), or plain REINFORCE."
    ),
]
ClipLow = Annotated[
    float, Field(ge=0.0, le=1.0, description="Lower clip of the probability ratio: 1 - clip_low.")
]
ClipHigh = Annotated[float, Field(ge=0.0, description="Upper clip of the probability ratio: 1 + clip_high.")]
DualClip = Annotated[
    float,
    Field(
        ge=0.0,
        description="Bound on the loss of tokens with negative advantage, as a multiple of the advantage; 0 disables.",
    ),
]
KlCoefficient = Annotated[
    float,
    Field(
        ge=0.0,
        description="Weight of the KL divergence from the base model; 0 disables (and saves its forward pass).",
    ),
]
KlEstimator = Annotated[
    Literal["k1", "k2", "k3"],
    Field(description='Estimator of the KL divergence (Schulman, "Approximating KL divergence").'),
]
KlIn = Annotated[
    Literal["loss", "reward"],
    Field(
        description="loss: a differentiated loss term; reward: subtracted from rewards before normalisation, once per "
        "response, or from the returns of each token and those before it (REINFORCE++, PPO)."
    ),
]
LossAverage = Annotated[
    Literal["token", "sequence", "constant"],
    Field(
        description="token: mean over a minibatch's tokens; sequence: mean per response first; constant: the sum "
        "divided by responses x the role's max_tokens."
    ),
]
OverlongShare = Annotated[
    float,
    Field(
        ge=0.0,
        le=1.0,
        description="Soft length limit: reward decreases linearly over this last share of a role's max_tokens; 0 "
        "disables.",
    ),
]

DropZeroVariance = Annotated[
    bool,
    Field(
        description="Exclude groups of equal rewards from the loss (metrics count them either way). False includes "
        "them: with advantage 0 if mean or deviation is computed per group, otherwise with their "
        "advantage within the batch."
    ),
]


class PolicyGradient(Section):
    """Settings shared by all policy-gradient algorithms."""

    type: str
    """The algorithm."""
    team_weight: float = Field(1.0, ge=0.0)
    """Alpha: weight of the team's reward in a candidate's reward."""
    local_weight: float = Field(1.0, ge=0.0)
    """Beta: weight of the role's local reward in a candidate's reward."""
    mean_level: MeanLevel = "group"
    std_level: StdLevel = "group"
    leave_one_out: LeaveOneOut = False
    unbiased_std: bool = True
    """Standard deviations divide by n - 1 (torch's default); false divides by n (numpy's)."""
    batch_whitening: Whitening = False
    policy_loss: PolicyLoss = "clip"
    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    dual_clip: DualClip = 3.0
    entropy_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the entropy bonus in the loss; 0 disables."""
    kl_coefficient: KlCoefficient = 0.0
    kl_estimator: KlEstimator = "k3"
    kl_in: KlIn = "loss"
    loss_average: LossAverage = "token"
    drop_zero_variance: DropZeroVariance = True
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
    overlong_share: OverlongShare = 0.0
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

    @model_validator(mode="after")
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


class Grpo(PolicyGradient):
    """Group-relative policy optimisation (GRPO, arXiv 2402.03300): K answers are compared with each other."""

    type: Literal["grpo"] = "grpo"
    """Rewards normalised within their group; a mean per response, then over responses; KL to the base model in the loss."""
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "sequence"
    kl_coefficient: KlCoefficient = 0.04


class DrGrpo(PolicyGradient):
    """GRPO without the bias towards long answers and easy groups (Dr. GRPO, arXiv 2503.20783)."""

    type: Literal["dr_grpo"] = "dr_grpo"
    """Rewards minus their group's mean, not divided; token losses divided by a constant length."""
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "constant"


class Rloo(PolicyGradient):
    """REINFORCE with a leave-one-out baseline (RLOO, arXiv 2402.14740)."""

    type: Literal["rloo"] = "rloo"
    """Each answer's baseline is the mean of its group's other rewards; KL to the base model is part of the reward."""
    leave_one_out: LeaveOneOut = True
    std_level: StdLevel = "none"
    policy_loss: PolicyLoss = "reinforce"
    kl_coefficient: KlCoefficient = 0.03
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"


class TokenReturns(PolicyGradient):
    """Base of the two forms of REINFORCE++: a return for every token."""

    discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: discount of the reward per token; 1 gives all tokens of a response the same return."""


class ReinforcePlusPlus(TokenReturns):
    """PPO's clipped loss without a critic, normalised over the batch (REINFORCE++, arXiv 2501.03262)."""

    type: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    """Rewards normalised over the whole batch: a group of one is sufficient; KL to the base model is part of the reward."""
    mean_level: MeanLevel = "batch"
    std_level: StdLevel = "batch"
    dual_clip: DualClip = 0.0
    drop_zero_variance: DropZeroVariance = False
    kl_coefficient: KlCoefficient = 0.01
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"


class ReinforcePlusPlusBaseline(TokenReturns):
    """REINFORCE++ with the group's mean as baseline, then normalised over the batch (arXiv 2501.03262, section 4)."""

    type: Literal["reinforce_plus_plus_baseline"] = "reinforce_plus_plus_baseline"
    """Rewards minus their group's mean, then normalised over the batch; KL to the base model in the loss."""
    std_level: StdLevel = "none"
    batch_whitening: Whitening = True
    dual_clip: DualClip = 0.0
    kl_coefficient: KlCoefficient = 0.01
    kl_estimator: KlEstimator = "k2"


class Gspo(PolicyGradient):
    """Group sequence policy optimisation: one ratio per sequence (GSPO, arXiv 2507.18071)."""

    type: Literal["gspo"] = "gspo"
    """The ratio of a response is the geometric mean of its tokens' ratios, clipped tightly; every response has the same weight."""
    policy_loss: PolicyLoss = "sequence_clip"
    clip_low: ClipLow = 3e-4
    clip_high: ClipHigh = 4e-4
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "sequence"


class Cispo(PolicyGradient):
    """Clipped importance weights on a REINFORCE loss: no token loses its gradient (CISPO, arXiv 2506.13585)."""

    type: Literal["cispo"] = "cispo"
    """The ratio is a weight without gradient, bounded above; every token contributes gradient."""
    policy_loss: PolicyLoss = "cispo"
    clip_low: ClipLow = 1.0
    clip_high: ClipHigh = 4.0
    dual_clip: DualClip = 0.0


class Dapo(PolicyGradient):
    """Decoupled clip and dynamic sampling (DAPO, arXiv 2503.14476)."""

    type: Literal["dapo"] = "dapo"
    """A higher upper clip, a mean over tokens, no KL, groups without variance excluded, a soft limit on length."""
    clip_high: ClipHigh = 0.28
    dual_clip: DualClip = 0.0
    overlong_share: OverlongShare = 0.2


class Ppo(PolicyGradient):
    """Proximal policy optimisation with a critic (PPO, arXiv 1707.06347; GAE, arXiv 1506.02438)."""

    type: Literal["ppo"] = "ppo"
    """A value head on the policy's trunk; token advantages by GAE, the reward on the last token. A group of one is sufficient."""
    mean_level: MeanLevel = "none"
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    drop_zero_variance: DropZeroVariance = False
    kl_estimator: KlEstimator = "k1"
    kl_in: KlIn = "reward"
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

    @model_validator(mode="after")
    def _the_critic_sees_what_was_earned(self) -> Self:
        if "group" in (self.mean_level, self.std_level):
            raise ValueError(
                "mean_level, std_level: a critic predicts the reward of an answer, and a group of equal rewards "
                "would count as 0; use "
                '"none" or "batch"'
            )
        return self


class Rae(PolicyGradient):
    """Role-conditioned advantage estimation for self-play (RAE, SPIRAL, arXiv 2506.24119)."""

    type: Literal["rae"] = "rae"
    """Rewards minus a moving average of their role's rewards; stored in checkpoints. A group of one is sufficient."""
    mean_level: MeanLevel = "none"
    std_level: StdLevel = "none"
    dual_clip: DualClip = 0.0
    loss_average: LossAverage = "constant"
    drop_zero_variance: DropZeroVariance = False
    baseline_decay: float = Field(0.95, ge=0.0, lt=1.0)
    """Decay of a role's baseline: each new reward has weight 1 - baseline_decay."""

    @model_validator(mode="after")
    def _kl_is_charged_before_normalisation(self) -> Self:
        normalised = self.batch_whitening or {self.mean_level, self.std_level} != {"none"}
        if self.kl_coefficient and self.kl_in == "reward" and normalised:
            raise ValueError(
                'kl_in: the baselines of "rae" are computed from rewards before the KL is known; use kl_in = "loss", or '
                'mean_level = std_level = "none" without batch_whitening'
            )
        return self


Algorithm = Annotated[
    AtGrpo
    | Grpo
    | DrGrpo
    | Rloo
    | ReinforcePlusPlus
    | ReinforcePlusPlusBaseline
    | Gspo
    | Cispo
    | Dapo
    | Ppo
    | Rae,
    Field(discriminator="type"),
]
"""One class per algorithm, selected by `type`."""

ALGORITHM_CONFIGS: dict[str, type[PolicyGradient]] = {
    "at_grpo": AtGrpo,
    "grpo": Grpo,
    "dr_grpo": DrGrpo,
    "rloo": Rloo,
    "reinforce_plus_plus": ReinforcePlusPlus,
    "reinforce_plus_plus_baseline": ReinforcePlusPlusBaseline,
    "gspo": Gspo,
    "cispo": Cispo,
    "dapo": Dapo,
    "ppo": Ppo,
    "rae": Rae,
}
