"""A crew in this process: no Ray, no web; the router calls the policies' workers directly."""

from pathlib import Path

from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.models.progress import Progress
from training_core.types import Prompt
from workers.actors.policy_worker import PolicyWorker
from workers.actors.router import Router
from workers.actors.spec import Generated, WorkerSpec
from workers.loops.records import Attempt, Collected, EpisodeKind, Span, Spot, Spots, Started, System, Updated


class LocalPolicy(PolicyWorker):
    """A policy's worker that looks, before it generates, whether the attempt must leave."""

    def __init__(self, spec: WorkerSpec, spot: Spot, progress: Progress) -> None:
        super().__init__(spec, progress)
        self._spot = spot

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """See PolicyPort. Raises Superseded."""
        self._spot()
        return super().generate(prompts, settings, version)


class LocalCrew:
    """See Crew."""

    def __init__(self, attempt: Attempt, spots: Spots, progress: Progress) -> None:
        config = attempt.config
        self._attempt = attempt

        def making(done: float, text: str) -> None:
            spots.starting()
            progress(done, text)

        ports = {
            policy: LocalPolicy(WorkerSpec(policy, policy, config, attempt.home), spots.running, making)
            for policy in config.used_policies
        }
        self._router = Router(
            config, ports, EnvironmentHost(config.environment, config.run.seed), side_by_side=False
        )

    def start(self, resume_from: Path | None) -> Started:
        """See Crew."""
        return self._router.start(self._attempt.number, resume_from)

    def collect(self, iteration: int) -> Collected:
        """See Crew."""
        return self._router.collect(iteration)

    def update(self, iteration: int) -> Updated:
        """See Crew."""
        return self._router.update(iteration)

    def publish(self, iteration: int) -> list[Span]:
        """See Crew."""
        return self._router.publish(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """See Crew."""
        return self._router.evaluate(iteration, kind, episodes)

    def save(self, folder: Path) -> None:
        """See Crew."""
        self._router.save(folder)

    def system(self) -> System:
        """See Crew."""
        return self._router.system()

    def close(self) -> None:
        """Nothing to end: all of it is this process."""
