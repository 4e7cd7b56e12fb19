"""Evaluation, checkpoints and reporting."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, create_model

from training_core.config.base import Section
from training_core.config.effects import Effects, Place, both, needs, only_if, unless, where
from training_core.loggers.registry import LOGGERS

_some_play = only_if(lambda at: at.section.greedy or at.section.sampled, "neither greedy nor sampled is on")
EVALUATION_EFFECTS = (
    needs("episodes probes mode", both(unless("every", 0), _some_play))
    | needs("greedy sampled", unless("every", 0))
    | needs("cpus gpus", both(unless("every", 0), _some_play, where("mode", "beside")))
)
"""Rules of evaluations of all kinds of agents."""


def _sampled_temperature(at: Place) -> str:
    if not (at.section.every and at.section.sampled):
        return "only with evaluation.every above 0 and evaluation.sampled = true"
    roles = at.config.team.roles.values()
    own = all(role.sampling.eval_temperature for role in roles)
    return "every role sets its own eval_temperature" if own else ""


def best_is_measured(at: Place) -> str:
    """Rule of what depends on `checkpoint.best_of`."""
    evaluation, metric = at.config.evaluation, at.config.checkpoint.best_of
    kinds = {"eval": ("greedy", evaluation.greedy), "eval_sampled": ("sampled", evaluation.sampled)}
    word, on = kinds.get(metric.split("/", 1)[0], ("", True))
    if word and not evaluation.every:
        return f"{metric} needs evaluation.every above 0"
    return "" if on else f"{metric} needs evaluation.{word} = true"


class Evaluation(Section):
    """Held-out tasks played without training, with independent rollouts (no tree)."""

    effects: ClassVar[Effects] = (
        EVALUATION_EFFECTS
        | {"every": _some_play, "temperature": _sampled_temperature}
        | needs("worth", unless("every", 0))
    )
    every: int = Field(10, ge=0)
    """Iterations between evaluations; the base model and the last iteration are always evaluated; 0 disables both."""
    episodes: int = Field(256, ge=1)
    """Held-out tasks per evaluation; the same ones in every evaluation."""
    greedy: bool = True
    """Evaluate with the most likely token at every step (metrics `eval/...`)."""
    sampled: bool = True
    """Evaluate with sampled tokens (metrics `eval_sampled/...`)."""
    temperature: float = Field(1.0, gt=0.0, le=10.0)
    """Temperature of the sampled evaluation."""
    probes: int = Field(6, ge=0)
    """Number of these tasks that are probes, whose transcripts are stored at every evaluation."""
    worth: int = Field(0, ge=0, le=64)
    """Number of these tasks whose messages are measured against other answers (metrics `.../<role>/worth`); 0 measures none.

    An episode of N messages then costs at most about 5 · N times as many tokens as a played one: each message is continued ten times.
    """
    mode: Literal["inline", "beside"] = "inline"
    """inline: training waits for an evaluation; beside: an evaluator of its own plays it during the next iterations (on Ray)."""
    cpus: float = Field(0.5, ge=0.0)
    """CPU cores of the evaluator (for scheduling)."""
    gpus: float = Field(0.0, ge=0.0)
    """GPUs of the evaluator, which its policies share; 0 runs on the CPU. Above 1 only with engine.tensor_parallel of vLLM."""


class Checkpoint(Section):
    """Checkpoints to resume, fork or export from."""

    effects: ClassVar[Effects] = needs("best_of keep_best", best_is_measured)
    every: int = Field(20, ge=0)
    """Iterations between checkpoints; 0 disables. The last iteration, and the one a run is stopped at, always have a checkpoint."""
    every_seconds: float = Field(0.0, ge=0.0)
    """Seconds after the last checkpoint (or the start) when the next one is due, written at the end of an iteration; 0 disables."""
    every_epochs: int = Field(0, ge=0)
    """Passes over the data (rollout.epoch_tasks) between checkpoints; 0 disables."""
    keep: int = Field(3, ge=1)
    """Number of latest checkpoints retained; older ones are removed, except the best."""
    best_of: str = "eval/success"
    """Metric whose highest value marks the best checkpoint."""
    keep_best: int = Field(1, ge=1)
    """Number of best checkpoints retained, regardless of age."""

    @property
    def is_best_by_evaluation(self) -> bool:
        """Whether best_of is a metric of evaluations."""
        return self.best_of.startswith(("eval/", "eval_sampled/"))


_has_logger = only_if(
    lambda at: any(getattr(at.section, name) for name in LOGGERS),
    f"only with one of {', '.join([*LOGGERS][:-1])} and {[*LOGGERS][-1]}",
)


class RunRecords(Section):
    """What is reported of a run, and the project of all loggers."""

    effects: ClassVar[Effects] = {"project": _has_logger}
    episodes_per_iteration: int = Field(8, ge=0)
    """Training episodes per iteration whose full transcripts are reported (facts and candidates)."""
    system_every: float = Field(5.0, gt=0.0)
    """Seconds between system samples (CPU, memory)."""
    log_level: Literal["debug", "info", "warning"] = "info"
    """Minimum severity of reported log lines. With `warning`, the output of processes (stdout, stderr) is not reported either."""
    project: str = Field("troupe", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}$")
    """Project of the run in the loggers below. The run's name there is `run.name`, or {algorithm}_{environment}_s{seed} if empty."""


if TYPE_CHECKING:
    LoggerFields = RunRecords
else:  # the later a base, the earlier its fields
    LoggerFields = create_model(
        "LoggerFields", __base__=(*(kind.fields for kind in reversed(LOGGERS.values())), RunRecords)
    )


class Reporting(LoggerFields):
    """Records of the run."""

    effects: ClassVar[Effects] = {"histograms": _has_logger}
    histograms: bool = False
    """Also send distributions to these loggers: of episode returns and lengths, and of small networks' weights and gradients."""
