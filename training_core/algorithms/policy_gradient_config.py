"""The fields that all algorithms have. An algorithm's own class sets the defaults of its paper.

Every field may be set for every algorithm, so a variant needs no code.
"""

from typing import Annotated, Literal, Self

from pydantic import Field

from training_core.config.base import Section, cross_field

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
