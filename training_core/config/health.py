"""Health rules: when a run has a problem, and which action follows."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import Section, cross_field
from training_core.config.effects import Effects, both, needs, only_if, where


class Rule(Section):
    """Settings shared by all rules."""

    effects: ClassVar[Effects] = {"fork_edits": where("action", "fork")}
    action: Literal["none", "notify", "pause", "stop", "fork"] = "notify"
    """Action on a new finding: none, a message to the project's channels, or a message and a pause, stop or fork of the run."""
    fork_edits: tuple[str, ...] = ()
    """Fields that a fork changes, as `field=value`, e.g. `policies.planner.learner.learning_rate=5e-5`."""

    @cross_field
    def _a_fork_changes_something(self) -> Self:
        if self.action == "fork" and not self.fork_edits:
            raise ValueError(
                "fork_edits: give at least one change (field=value); without edits the fork repeats the run with "
                "the same problem"
            )
        return self


class Recent(Rule):
    """A rule over the mean of the latest iterations."""

    window: int = Field(5, ge=1, le=200)
    """Number of latest iterations that are averaged; the rule is inactive before that many exist."""


class Unsolved(Recent):
    """A rule on values that are normal once the tasks are solved."""

    unless_success: float = Field(0.9, ge=0.0, le=1.0)
    """The rule is inactive once success, held-out or in training, has reached this: a policy that solves its tasks may have low entropy."""


class EntropyCollapse(Unsolved):
    """The policy hardly explores: entropy is low, and far below its initial value."""

    below: float = Field(0.03, ge=0.0)
    """Entropy per token (nats) below which it counts as collapsed ..."""
    share: float = Field(0.2, gt=0.0, le=1.0)
    """... if it is also below this share of its initial value."""


class KlBlowUp(Recent):
    """The policy diverges from its base model."""

    above: float = Field(1.0, gt=0.0)
    """KL divergence from the base model (nats per token)."""


class RatioTails(Recent):
    """Single tokens whose probability has changed by a large factor since they were sampled."""

    above: float = Field(20.0, gt=1.0)
    """Largest probability ratio; the median of the latest iterations is compared."""


class ClipFraction(Recent):
    """Clipping discards a large share of the update."""

    above: float = Field(0.3, gt=0.0, le=1.0)
    """Share of tokens that are clipped."""


class GradientNorm(Recent):
    """Gradients have become far larger than before."""

    times: float = Field(10.0, gt=1.0)
    """Median of the latest iterations, as a multiple of the median of the 20 before them."""
    least: float = Field(1.0, ge=0.0)
    """A norm below this is never too large."""


class GroupShare(Recent):
    """Groups of equal rewards, which give no gradient."""

    above: float = Field(0.8, gt=0.0, le=1.0)
    """Share of these groups of a role."""


class TooEasy(GroupShare, Unsolved):
    """Groups in which every candidate succeeds although the team does not."""


class NoSpread(GroupShare, Unsolved):
    """Groups of equal rewards, which give no gradient, although they are neither too easy nor too hard."""

    above: float = Field(0.9, gt=0.0, le=1.0)
    """Share of a role's groups in which all rewards are equal."""
    one_kind: float = Field(0.8, gt=0.0, le=1.0)
    """The rule is inactive while more than this share is too easy, or too hard, which have rules of their own."""


class IdleRole(Unsolved):
    """It makes no difference what a role says, while the tasks are not solved."""

    window: int = Field(2, ge=1, le=200)
    """Number of latest evaluations that are averaged."""
    below: float = Field(0.02, gt=0.0)
    """Upper bound of the role's influence: the standard deviation of an episode's value between its answers."""


class HarmfulRole(Recent):
    """A role's most likely answers are worse than its sampled ones."""

    window: int = Field(2, ge=1, le=200)
    """Number of latest evaluations that are averaged."""
    above: float = Field(0.05, gt=0.0)
    """Distance of the worth below 0, beyond its 95 % interval."""


class UnchangedPolicy(Unsolved):
    """Updates that leave a policy as it is."""

    below: float = Field(1e-7, gt=0.0)
    """Change of the weights in an iteration, as a share of their norm."""


class PolicyShift(Recent):
    """Updates change the policy strongly, so that their data no longer matches it."""

    above: float = Field(0.1, gt=0.0)
    """KL divergence between the policy before and after an update (nats per action)."""


class Truncation(Recent):
    """Answers are truncated by the token limit."""

    above: float = Field(0.2, gt=0.0, le=1.0)
    """Share of truncated answers."""


class Overlong(Rule):
    """Episodes that end early because a prompt leaves no room for an answer in the model's context."""

    within: int = Field(20, ge=1, le=500)
    """Number of latest iterations that are checked."""


class Mismatch(Recent):
    """Engine and learner compute different probabilities for the same tokens."""

    above: float = Field(0.05, gt=0.0)
    """Mean distance (nats per token) between the logprobs of engine and learner at the same weights."""


class Recompilation(Recent):
    """Updates compile kernels again and again: their shapes keep changing."""

    window: int = Field(10, ge=1, le=200)
    """Number of latest iterations that are compared; the rule is inactive before that many exist."""
    above: float = Field(0.5, ge=0.0)
    """Number of compiled kernels per iteration; the median of the latest iterations is compared."""


class Staleness(Recent):
    """Training uses tokens of old versions of the weights."""

    above: float = Field(4.0, ge=0.0)
    """Mean age of the tokens, in versions."""


class Overfitting(Rule):
    """Success in training rises while it falls on held-out tasks."""

    falls: float = Field(0.1, gt=0.0, le=1.0)
    """Held-out success is below its best by this much in the last two evaluations ..."""
    rises: float = Field(0.03, ge=0.0, le=1.0)
    """... while success in training has risen by this much since then."""


class SuccessFell(Rule):
    """Success is well below the best of the run."""

    falls: float = Field(0.1, gt=0.0, le=1.0)
    """Each of the last two evaluations is below the best one by this much ..."""
    errors: float = Field(3.5, gt=0.0)
    """... and their mean by this many standard errors of the difference, which follow from evaluation.episodes."""


class ReturnWithoutSuccess(Rule):
    """The return rises while success falls: the policy earns reward for something else than solving the tasks."""

    falls: float = Field(0.1, gt=0.0, le=1.0)
    """Mean success in training is below its best by this much ..."""
    rises: float = Field(2.0, gt=0.0)
    """... while the mean return has risen since then by this many of its standard deviations within the averaged iterations."""
    window: int = Field(5, ge=3, le=200)
    """Iterations averaged."""


class FailedEpisodes(Recent):
    """Episodes end with an error and are not trained on."""

    above: float = Field(0.1, gt=0.0, le=1.0)
    """Share of training episodes that failed."""


class AgentErrors(Recent):
    """Episodes whose agent ends with an error that counts as `workflow.failure_reward`."""

    above: float = Field(0.5, gt=0.0, le=1.0)
    """Share of training episodes whose agent ended with an error."""


class LengthHacking(Rule):
    """Episodes use more and more tokens without succeeding more often."""

    times: float = Field(1.5, gt=1.0)
    """Tokens per episode, as a multiple of the earlier number ..."""
    gain: float = Field(0.02, ge=0.0, le=1.0)
    """... while success in training has not risen by this much."""
    window: int = Field(10, ge=3, le=200)
    """Iterations averaged at each end of the comparison."""


class StalledPhase(Rule):
    """The driver is alive, but no iteration ends."""

    least: float = Field(300.0, ge=5.0)
    """Time without new metrics that is always acceptable, in seconds."""
    times: float = Field(10.0, ge=1.0)
    """Multiple of the usual time between metrics."""


class DeadWorker(Rule):
    """The run's driver sends no heartbeat, or an attempt has failed."""

    silence: float = Field(60.0, ge=5.0)
    """Seconds without a heartbeat."""


class LostEvents(Rule):
    """Events of the run are lost, because its disk was full."""


class NotANumber(Rule):
    """Losses, gradients or ratios that are not finite, and updates that were skipped because of it."""

    within: int = Field(50, ge=1, le=500)
    """Number of latest iterations that are checked."""


class HealthFork(Section):
    """How rules with the action `fork` fork a run."""

    checkpoint: Literal["good", "best"] = "good"
    """Start from the last checkpoint before the finding's first step, or from the best one (the last good one if none is marked best)."""
    stop: bool = True
    """Whether the forked run is stopped, so that the fork gets its devices."""
    generations: int = Field(1, ge=1, le=20)
    """Maximum depth of forks that rules create from forks."""


_enabled = only_if(lambda at: at.section.enabled, "health.enabled = false")
_forks = only_if(
    lambda at: any(rule.action == "fork" for rule in at.section.rules().values()),
    'no rule has action = "fork"',
)
_has_gpus = only_if(
    lambda at: any(
        policy.devices.rollout_gpus or policy.devices.update_gpus for policy in at.config.policies.values()
    ),
    "kernels are compiled on GPUs only",
)
_measures_kl = only_if(
    lambda at: at.config.algorithm.kl_coefficient,
    "the KL from the base model is only computed with algorithm.kl_coefficient above 0",
)
_measures_worth = only_if(lambda at: at.config.evaluation.worth, "only with evaluation.worth above 0")
_measures_greedy_worth = only_if(
    lambda at: at.config.evaluation.worth and at.config.evaluation.greedy,
    "only with evaluation.worth above 0 and evaluation.greedy = true",
)
_rewards_failures = only_if(
    lambda at: getattr(at.config.workflow, "failure_reward", None) is not None,
    "only with workflow.failure_reward",
)
_is_asynchronous = only_if(
    lambda at: at.config.oldest_data, "tokens are never stale with rollout.staleness = 0"
)
_compares_evaluations = only_if(
    lambda at: at.config.evaluation.every and at.config.evaluation.greedy,
    "needs evaluation.every above 0 and evaluation.greedy = true",
)


class RunHealth(Section):
    """Rules that monitor the run (see docs/use/health.md) and apply to all kinds of agents."""

    effects: ClassVar[Effects] = {"fork": both(_enabled, _forks)} | needs(
        "relax looks clip_fraction gradient_norm failed_episodes stalled_phase dead_worker lost_events not_a_number",
        _enabled,
    )
    enabled: bool = True
    """Whether the rules are evaluated."""
    relax: float = Field(0.7, gt=0.0, le=1.0)
    """A finding ends, or a critical one becomes a warning, once its value is below this share of the bound that started it ..."""
    looks: int = Field(3, ge=1, le=100)
    """... at this many consecutive steps. The last step of a run that has ended decides immediately."""
    fork: HealthFork = HealthFork()
    """Settings of forks that rules create."""
    clip_fraction: ClipFraction = ClipFraction()
    """Clipped data, per policy."""
    gradient_norm: GradientNorm = GradientNorm()
    """Gradient norm, per policy."""
    failed_episodes: FailedEpisodes = FailedEpisodes()
    """Episodes that end with an error."""
    stalled_phase: StalledPhase = StalledPhase()
    """Time without progress."""
    dead_worker: DeadWorker = DeadWorker()
    """Heartbeat of the run's driver."""
    lost_events: LostEvents = LostEvents()
    """Events that neither the disk nor the server has taken."""
    not_a_number: NotANumber = NotANumber()
    """NaN and infinities, per policy."""

    def rules(self) -> dict[str, Rule]:
        """The rules, by name."""
        return {name: rule for name, rule in self if isinstance(rule, Rule)}


class Health(RunHealth):
    """Rules that monitor a run of language models; see docs/use/health.md."""

    effects: ClassVar[Effects] = {
        "kl_blow_up": both(_measures_kl, _enabled),
        "recompilation": both(_has_gpus, _enabled),
        "staleness": both(_is_asynchronous, _enabled),
        "overfitting": both(_compares_evaluations, _enabled),
        "success_fell": both(_compares_evaluations, _enabled),
        "agent_errors": both(_rewards_failures, _enabled),
        "idle_role": both(_measures_worth, _enabled),
        "harmful_role": both(_measures_greedy_worth, _enabled),
    } | needs(
        "entropy_collapse ratio_tails unchanged_policy too_easy too_hard unpaid_role no_spread truncation overlong "
        "mismatch return_rises_success_falls length_hacking",
        _enabled,
    )
    entropy_collapse: EntropyCollapse = EntropyCollapse()
    """Entropy, per policy."""
    kl_blow_up: KlBlowUp = KlBlowUp()
    """KL from the base model, per policy."""
    ratio_tails: RatioTails = RatioTails()
    """Largest ratio, per policy."""
    unchanged_policy: UnchangedPolicy = UnchangedPolicy()
    """Change of the weights, per policy."""
    too_easy: TooEasy = TooEasy()
    """Groups in which everything succeeds, per role."""
    too_hard: GroupShare = GroupShare()
    """Groups in which nothing succeeds, per role."""
    unpaid_role: GroupShare = GroupShare()
    """Groups in which nothing succeeds, of a role whose rewards have never differed although others' do."""
    idle_role: IdleRole = IdleRole()
    """Influence of a role's messages; needs evaluation.worth."""
    harmful_role: HarmfulRole = HarmfulRole()
    """Worth of a role's messages; needs evaluation.worth."""
    no_spread: NoSpread = NoSpread()
    """Groups of equal rewards, per role."""
    truncation: Truncation = Truncation()
    """Truncated answers."""
    overlong: Overlong = Overlong()
    """Prompts that do not fit the model's context."""
    mismatch: Mismatch = Mismatch()
    """Probabilities in generation versus training, per policy."""
    recompilation: Recompilation = Recompilation()
    """Kernels compiled by updates on a GPU, per policy."""
    staleness: Staleness = Staleness()
    """Age of training data."""
    overfitting: Overfitting = Overfitting()
    """Success in training versus held-out tasks."""
    success_fell: SuccessFell = SuccessFell()
    """Success below the best of the run."""
    return_rises_success_falls: ReturnWithoutSuccess = ReturnWithoutSuccess()
    """Return versus success."""
    agent_errors: AgentErrors = AgentErrors()
    """Episodes whose agent ends with an error."""
    length_hacking: LengthHacking = LengthHacking()
    """Tokens versus success."""


class NetworkHealth(RunHealth):
    """Rules that monitor a run of small networks; see docs/use/health.md.

    Entropy has no bound that suits every environment, and small networks have no tokens, groups or base model.
    """

    effects: ClassVar[Effects] = {"policy_shift": _enabled}
    policy_shift: PolicyShift = PolicyShift()
    """KL between the policies before and after an update, per policy."""

    @model_validator(mode="before")
    @classmethod
    def _without_rules_of_language_models(cls, tree: Any) -> Any:
        """Drop rules of language models that earlier versions stored, if they are unchanged."""
        if not isinstance(tree, dict):
            return tree
        foreign = Health().rules().keys() - cls.model_fields.keys()
        return {
            name: value for name, value in tree.items() if name not in foreign or not _is_default(name, value)
        }


def _is_default(name: str, value: Any) -> bool:
    """Whether a stored rule of language models equals the default."""
    default = Health().rules()[name]
    try:
        return type(default).model_validate(value) == default
    except ValueError:
        return False
