"""Health rules: when a run is said to be ill, and what is then done."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import Section


class Rule(Section):
    """What every rule has."""

    action: Literal["none", "notify", "pause", "stop", "fork"] = "notify"
    """What follows a new finding: nothing, a message to the project's channels, or that and a pause, stop or fork of the run."""
    fork_edits: tuple[str, ...] = ()
    """Fields that a fork changes, as `field=value`, e.g. `policies.planner.learner.learning_rate=5e-5`."""

    @model_validator(mode="after")
    def _a_fork_changes_something(self) -> Self:
        if self.action == "fork" and not self.fork_edits:
            raise ValueError(
                "fork_edits: say what the fork changes (field=value); without edits it repeats the run, trouble included"
            )
        return self


class Recent(Rule):
    """A rule over the mean of the latest iterations."""

    window: int = Field(5, ge=1, le=200)
    """How many of the latest iterations are averaged; the rule is silent before there are as many."""


class Unsolved(Recent):
    """A rule over what is normal once the tasks are solved."""

    unless_success: float = Field(0.9, ge=0.0, le=1.0)
    """The rule is silent once success, held-out or in training, has reached this: a policy that solves its tasks may be certain."""


class EntropyCollapse(Unsolved):
    """The policy hardly explores any more: entropy is low, and far below what it was."""

    below: float = Field(0.03, ge=0.0)
    """Entropy per token (nats) under which it counts as collapsed ..."""
    share: float = Field(0.2, gt=0.0, le=1.0)
    """... if it is also below this share of what it was at first."""


class KlBlowUp(Recent):
    """The policy runs away from its base model."""

    above: float = Field(1.0, gt=0.0)
    """KL divergence from the base model (nats per token)."""


class RatioTails(Recent):
    """Single tokens whose probability has changed many times over since they were sampled."""

    above: float = Field(20.0, gt=1.0)
    """Largest probability ratio; the median of the latest iterations counts."""


class ClipFraction(Recent):
    """Much of the update is thrown away by clipping."""

    above: float = Field(0.3, gt=0.0, le=1.0)
    """Share of tokens that are clipped."""


class GradientNorm(Rule):
    """The gradient has jumped."""

    times: float = Field(10.0, gt=1.0)
    """Multiple of the median of the 20 iterations before."""
    least: float = Field(1.0, ge=0.0)
    """A smaller norm is never a jump."""


class GroupShare(Recent):
    """Groups of equal rewards, which teach nothing."""

    above: float = Field(0.8, gt=0.0, le=1.0)
    """Share of such groups of a role."""


class TooEasy(GroupShare, Unsolved):
    """Groups in which every candidate succeeds although the team does not."""


class PolicyShift(Recent):
    """Updates change the policy much: far from the data that they learn from."""

    above: float = Field(0.1, gt=0.0)
    """KL divergence between the policy before and after an update (nats per action)."""


class Truncation(Recent):
    """Answers are cut by the token limit."""

    above: float = Field(0.2, gt=0.0, le=1.0)
    """Share of answers that are cut."""


class Mismatch(Recent):
    """What generated the tokens and what learns from them disagree about their probabilities."""

    above: float = Field(0.05, gt=0.0)
    """Mean distance (nats per token) between the logprobs of engine and learner at the same weights."""


class Staleness(Recent):
    """Training uses tokens of old versions."""

    above: float = Field(4.0, ge=0.0)
    """Mean age of the tokens, in versions."""


class Overfitting(Rule):
    """Success in training rises while it falls on held-out tasks."""

    falls: float = Field(0.1, gt=0.0, le=1.0)
    """Held-out success below its best by this much, in the last two evaluations ..."""
    rises: float = Field(0.03, ge=0.0, le=1.0)
    """... while success in training has risen by this much since then."""


class LengthHacking(Rule):
    """Episodes cost more and more tokens without succeeding more often."""

    times: float = Field(1.5, gt=1.0)
    """Tokens per episode, as a multiple of what they were ..."""
    gain: float = Field(0.02, ge=0.0, le=1.0)
    """... while success in training has not risen by this much."""
    window: int = Field(10, ge=3, le=200)
    """Iterations at either end that are compared."""


class StalledPhase(Rule):
    """The driver lives, but no iteration ends."""

    least: float = Field(300.0, ge=5.0)
    """Seconds without new metrics that are never too long."""
    times: float = Field(10.0, ge=1.0)
    """Multiple of the usual time between metrics."""


class DeadWorker(Rule):
    """Nothing is heard of the run's driver, or an attempt was lost."""

    silence: float = Field(60.0, ge=5.0)
    """Seconds without any sign of life."""


class NotANumber(Rule):
    """Losses, gradients or ratios that are no finite numbers; updates that were skipped for it."""

    within: int = Field(50, ge=1, le=500)
    """Latest iterations that are looked at."""


class HealthFork(Section):
    """How rules with the action `fork` fork a run."""

    checkpoint: Literal["good", "best"] = "good"
    """Start from: the last checkpoint before the finding's first step, or the best one (the last good one if none is best)."""
    stop: bool = True
    """Whether the run that was forked is then stopped, so that the fork gets its devices."""
    generations: int = Field(1, ge=1, le=20)
    """Forks of forks that rules make at most, counted along the line of descent."""


class RunHealth(Section):
    """Rules that watch the run; see docs/health.md. Those that apply to any kind of agents."""

    enabled: bool = True
    """Whether the rules are looked at."""
    relax: float = Field(0.7, gt=0.0, le=1.0)
    """A finding is over, or a bad one a warning, once its figure is below this share of the bound at which it began ..."""
    looks: int = Field(3, ge=1, le=100)
    """... at so many looks in a row that see new metrics. The last look at a run that has ended decides at once."""
    fork: HealthFork = HealthFork()
    """Forks that rules make."""
    clip_fraction: ClipFraction = ClipFraction()
    """Clipped data, per policy."""
    gradient_norm: GradientNorm = GradientNorm()
    """Gradient norm, per policy."""
    stalled_phase: StalledPhase = StalledPhase()
    """Time without progress."""
    dead_worker: DeadWorker = DeadWorker()
    """Signs of life."""
    not_a_number: NotANumber = NotANumber()
    """NaN and infinities, per policy."""

    def rules(self) -> dict[str, Rule]:
        """The rules, by name."""
        return {name: rule for name, rule in self if isinstance(rule, Rule)}


class Health(RunHealth):
    """Rules that watch a run of language models; see docs/health.md."""

    entropy_collapse: EntropyCollapse = EntropyCollapse()
    """Entropy, per policy."""
    kl_blow_up: KlBlowUp = KlBlowUp()
    """KL from the base model, per policy."""
    ratio_tails: RatioTails = RatioTails()
    """Largest ratio, per policy."""
    too_easy: TooEasy = TooEasy()
    """Groups in which everything succeeds, per role."""
    too_hard: GroupShare = GroupShare()
    """Groups in which nothing succeeds, per role."""
    truncation: Truncation = Truncation()
    """Cut answers."""
    mismatch: Mismatch = Mismatch()
    """Generation against training, per policy."""
    staleness: Staleness = Staleness()
    """Age of what is learnt from."""
    overfitting: Overfitting = Overfitting()
    """Training against held-out tasks."""
    length_hacking: LengthHacking = LengthHacking()
    """Tokens against success."""


class NetworkHealth(RunHealth):
    """Rules that watch a run of small networks; see docs/health.md.

    Their entropy has no bound that means the same in every environment, and they have no tokens, groups or base model.
    """

    policy_shift: PolicyShift = PolicyShift()
    """KL between the policies before and after an update, per policy."""

    @model_validator(mode="before")
    @classmethod
    def _without_rules_of_language_models(cls, given: Any) -> Any:
        """Earlier versions stored the rules of language models too: those that nobody changed are dropped."""
        if not isinstance(given, dict):
            return given
        foreign = Health().rules().keys() - cls.model_fields.keys()
        return {
            name: value
            for name, value in given.items()
            if name not in foreign or not _is_default(name, value)
        }


def _is_default(name: str, value: Any) -> bool:
    """Whether a rule of language models, as stored, is what a config has that does not mention it."""
    default = Health().rules()[name]
    try:
        return type(default).model_validate(value) == default
    except ValueError:
        return False
