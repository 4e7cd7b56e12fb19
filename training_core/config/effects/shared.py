"""Rules shared by configs of language-model agents and of small networks."""

from training_core.config.effects.language_models import config_of
from training_core.config.effects.rules import Effects, Place, always, both, needs, switched, unless, where
from training_core.config.evaluation import Checkpoint, Evaluation, Reporting, RunRecords
from training_core.config.experiment import Run
from training_core.config.health import (
    ClipFraction,
    DeadWorker,
    EntropyCollapse,
    GradientNorm,
    GroupShare,
    Health,
    HealthFork,
    KlBlowUp,
    LengthHacking,
    Mismatch,
    NetworkHealth,
    NotANumber,
    Overfitting,
    Overlong,
    PolicyShift,
    RatioTails,
    Recent,
    Rule,
    RunHealth,
    Staleness,
    StalledPhase,
    TooEasy,
    Truncation,
    Unsolved,
)
from training_core.config.marl import MarlCheckpoint, MarlEvaluation
from training_core.loggers.registry import LOGGERS


def _loggers(at: Place) -> str:
    if any(getattr(at.section, name) for name in LOGGERS):
        return ""
    *first, last = LOGGERS
    return f"only with one of {', '.join(first)} and {last}"


def _best_of(at: Place) -> str:
    evaluation, metric = at.config.evaluation, at.section.best_of
    kinds = {"eval": evaluation.greedy, "eval_sampled": evaluation.sampled}
    kind = metric.split("/", 1)[0]
    if kind not in kinds:
        return ""
    if not evaluation.every:
        return f"{metric} needs evaluation.every above 0"
    word = "greedy" if kind == "eval" else "sampled"
    return "" if kinds[kind] else f"{metric} needs evaluation.{word} = true"


def _sampled_temperature(at: Place) -> str:
    if not (at.section.every and at.section.sampled):
        return "only with evaluation.every above 0 and evaluation.sampled = true"
    roles = at.config.team.roles.values()
    own = all(role.sampling.eval_temperature for role in roles)
    return "every role sets its own eval_temperature" if own else ""


def _enabled(at: Place) -> str:
    return "" if at.section.enabled else "health.enabled = false"


def _forks(at: Place) -> str:
    if why := _enabled(at):
        return why
    forks = any(rule.action == "fork" for rule in at.section.rules().values())
    return "" if forks else 'no rule has action = "fork"'


def _measures_kl(at: Place) -> str:
    if not at.config.algorithm.kl_coefficient:
        return "the KL from the base model is only computed with algorithm.kl_coefficient above 0"
    return _enabled(at)


def _is_asynchronous(at: Place) -> str:
    if not config_of(at).oldest_data:
        return "tokens are never stale with rollout.staleness = 0"
    return _enabled(at)


def _compares_evaluations(at: Place) -> str:
    evaluation = at.config.evaluation
    if not (evaluation.every and evaluation.greedy):
        return "needs evaluation.every above 0 and evaluation.greedy = true"
    return _enabled(at)


def _some_play(at: Place) -> str:
    return "" if at.section.greedy or at.section.sampled else "neither greedy nor sampled is on"


_EVALUATES = both(unless("every", 0), _some_play)
SHARED: Effects = {
    Run: always("name description tags seed iterations max_attempts failure_patience"),
    Evaluation: needs("every", _some_play)
    | needs("episodes probes", _EVALUATES)
    | needs("greedy sampled", unless("every", 0))
    | needs("temperature", _sampled_temperature),
    MarlEvaluation: always("every")
    | needs("episodes probes", _EVALUATES)
    | needs("greedy sampled", unless("every", 0))
    | needs("sampled_episodes", both(unless("every", 0), where("sampled", True))),
    Checkpoint: always("every every_seconds every_epochs keep") | needs("best_of keep_best", _best_of),
    MarlCheckpoint: always("resume_from"),
    RunRecords: always("episodes_per_iteration system_every log_level") | needs("project", _loggers),
    **{kind.fields: switched(kind.fields, name) for name, kind in LOGGERS.items()},
    Reporting: needs("histograms", _loggers),
    RunHealth: always("enabled")
    | needs("fork", _forks)
    | needs("relax looks clip_fraction gradient_norm stalled_phase dead_worker not_a_number", _enabled),
    Health: needs(
        "entropy_collapse ratio_tails too_easy too_hard truncation overlong mismatch length_hacking", _enabled
    )
    | needs("kl_blow_up", _measures_kl)
    | needs("staleness", _is_asynchronous)
    | needs("overfitting", _compares_evaluations),
    NetworkHealth: needs("policy_shift", _enabled),
    HealthFork: always("checkpoint stop generations"),
    Rule: always("action") | needs("fork_edits", where("action", "fork")),
    Recent: always("window"),
    Unsolved: always("unless_success"),
    EntropyCollapse: always("below share"),
    KlBlowUp: always("above"),
    PolicyShift: always("above"),
    RatioTails: always("above"),
    ClipFraction: always("above"),
    GradientNorm: always("times least"),
    GroupShare: always("above"),
    TooEasy: always("above unless_success"),
    Truncation: always("above"),
    Overlong: always("within"),
    Mismatch: always("above"),
    Staleness: always("above"),
    Overfitting: always("falls rises"),
    LengthHacking: always("times gain window"),
    StalledPhase: always("least times"),
    DeadWorker: always("silence"),
    NotANumber: always("within"),
}
