"""The parts of the workers that depend on the kind of agents. Callers ask this registry, and do not test the kind."""

from collections.abc import Mapping
from dataclasses import dataclass

from training_core.config.experiment import AgentKind


@dataclass(frozen=True)
class WorkerKind:
    """The parts of one kind, as "module:name". They are imported on first use: the web and the driver import no torch."""

    processes: str
    """Config -> the processes of a run on Ray, with their devices."""
    actors: str
    """(attempt, config, placement, label, placement group) -> Session: starts those processes."""
    local_backend: str
    """(attempt, config, stop checks, progress) -> TrainingBackend in the driver's process."""
    jobs: Mapping[str, str]
    """Short jobs: JobContext -> result as JSON. Each stores its episodes in the job's folder."""
    checks: str
    """(config, surroundings) -> the checks before a launch (workers.preflight)."""
    summary_lines: str = ""
    """(config, iteration, metrics) -> lines about all evaluations; empty: each evaluation is displayed by itself."""


WORKER_KINDS: dict[AgentKind, WorkerKind] = {
    AgentKind.LANGUAGE_MODELS: WorkerKind(
        processes="workers.sizing.placement:policy_processes",
        actors="workers.driver.ray_backend:start_policies",
        local_backend="workers.driver.local_backends:LocalBackend",
        checks="workers.preflight.language_models:steps",
        jobs={
            "check": "workers.preflight.checks:check",
            "dry_run": "workers.preflight.dry_run:language_models",
            "evaluate": "workers.jobs.language_models:evaluate",
            "match": "workers.jobs.language_models:match",
            "prepare": "workers.jobs.language_models:prepare",
            "talk": "workers.jobs.talk:talk",
            "what_if": "workers.jobs.replays:what_if",
            "worth": "workers.jobs.replays:message_worth",
        },
    ),
    AgentKind.NETWORKS: WorkerKind(
        processes="workers.sizing.placement:trainer_processes",
        actors="workers.driver.ray_backend:start_trainer",
        local_backend="workers.driver.local_backends:LocalNetworksBackend",
        checks="workers.preflight.networks:steps",
        jobs={
            "check": "workers.preflight.checks:check",
            "dry_run": "workers.preflight.dry_run:networks",
            "evaluate": "workers.jobs.networks:evaluate",
            "match": "workers.jobs.networks:match",
        },
        summary_lines="workers.driver.display:summary_lines",
    ),
}
