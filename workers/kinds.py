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
    """(config, surroundings) -> the checks before a launch (workers.checks)."""
    summary_lines: str = ""
    """(config, iteration, metrics) -> lines about all evaluations; empty: each evaluation is displayed by itself."""


WORKER_KINDS: dict[AgentKind, WorkerKind] = {
    AgentKind.LANGUAGE_MODELS: WorkerKind(
        processes="workers.sizing.placement:policy_processes",
        actors="workers.cluster.session:start_policies",
        local_backend="workers.backends.local:LocalBackend",
        checks="workers.checks.language_models:steps",
        jobs={
            "check": "workers.jobs.check:check",
            "dry_run": "workers.jobs.rollouts:dry_run",
            "evaluate": "workers.jobs.rollouts:evaluate",
            "match": "workers.jobs.rollouts:match",
            "prepare": "workers.jobs.base_models:prepare",
            "talk": "workers.jobs.talk:talk",
        },
    ),
    AgentKind.NETWORKS: WorkerKind(
        processes="workers.sizing.placement:trainer_processes",
        actors="workers.cluster.session:start_trainer",
        local_backend="workers.backends.seeds:LocalNetworksBackend",
        checks="workers.checks.networks:steps",
        jobs={
            "check": "workers.jobs.check:check",
            "dry_run": "workers.jobs.networks:dry_run",
            "evaluate": "workers.jobs.networks:evaluate",
            "match": "workers.jobs.networks:match",
        },
        summary_lines="workers.driver.marl_lines:summary_lines",
    ),
}
