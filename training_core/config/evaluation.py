"""Evaluation, checkpoints and reporting."""

from typing import Literal

from pydantic import Field

from training_core.config.base import Section


class Evaluation(Section):
    """Held-out tasks played without learning, with independent rollouts (no tree)."""

    every: int = Field(10, ge=0)
    """Iterations between evaluations; the base model and the last iteration are always evaluated; 0 disables both."""
    episodes: int = Field(256, ge=1)
    """Held-out tasks per evaluation; the same ones every time."""
    greedy: bool = True
    """Evaluate with the likeliest token at every step (metrics `eval/...`)."""
    sampled: bool = True
    """Evaluate with sampled tokens (metrics `eval_sampled/...`)."""
    temperature: float = Field(1.0, gt=0.0, le=10.0)
    """Temperature of the sampled evaluation."""
    probes: int = Field(6, ge=0)
    """How many of these tasks are probes, whose transcripts are kept at every evaluation."""


class Checkpoint(Section):
    """What is kept to resume, fork or export from."""

    every: int = Field(20, ge=0)
    """Iterations between checkpoints; 0 counts no iterations. The last iteration always has one, and one that is stopped at."""
    every_seconds: float = Field(0.0, ge=0.0)
    """Seconds after the last checkpoint (or the start) when one is due, at the end of an iteration; 0 disables."""
    every_epochs: int = Field(0, ge=0)
    """Passes over the data (rollout.epoch_tasks) between checkpoints; 0 disables."""
    keep: int = Field(3, ge=1)
    """Latest checkpoints kept; older ones are removed, save the best."""
    best_of: str = "eval/success"
    """Metric whose highest value marks the best checkpoint."""
    keep_best: int = Field(1, ge=1)
    """Best checkpoints kept, however old."""


class Reporting(Section):
    """What of the run is kept for reading."""

    episodes_per_iteration: int = Field(8, ge=0)
    """Training episodes per iteration whose full transcripts are reported (facts and candidates)."""
    system_every: float = Field(5.0, gt=0.0)
    """Seconds between system samples (CPU, memory)."""
    log_level: Literal["debug", "info", "warning"] = "info"
    """Least severe log line that is reported."""
    project: str = Field("troupe", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}$")
    """Under which the loggers below file the run; as `run.name` is its name there, or {algorithm}_{environment}_s{seed}."""
    jsonl: bool = False
    """Write every metric to metrics.jsonl in the run's folder too, one JSON object a line."""
    tensorboard: bool = False
    """Write every metric to TensorBoard's event files too, below tensorboard/ in the run's folder (extra `tensorboard`)."""
    wandb: bool = False
    """Log every metric to Weights & Biases too (extra `wandb`)."""
    wandb_mode: Literal["offline", "online"] = "offline"
    """offline: kept below wandb/ in the run's folder, for `wandb sync`; online: sent at once, with the machine's own W&B login."""
    histograms: bool = False
    """Hand these loggers distributions as well: of episodes' returns and lengths, of small networks' weights and gradients."""
