"""A crew in this process: no Ray, no web; the router calls the policies' workers directly."""

from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import WaitLeft
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.models.progress import Progress
from training_core.types import Group, Prompt
from workers.actors.policy_worker import PolicyWorker
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.router import Router
from workers.actors.update_worker import UpdateWorker
from workers.backends.polling import looking
from workers.gateway.announcing import announce
from workers.protocol.records import (
    Attempt,
    Collected,
    EpisodeKind,
    Span,
    Spot,
    Spots,
    Started,
    System,
    Updated,
)
from workers.protocol.spec import Generated, PolicyUpdate, Ready, WorkerSpec


class LocalPolicy(PolicyWorker):
    """A policy's worker that looks, before it generates, whether the attempt must leave."""

    def __init__(self, spec: WorkerSpec, spot: Spot, progress: Progress) -> None:
        super().__init__(spec, progress)
        self._spot = spot
        self._turn = Lock()
        """One thread generates while another may write a checkpoint."""

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """See PolicyPort. Raises Superseded, WaitLeft."""
        self._spot()
        with self._turn:
            return super().generate(prompts, settings, version)

    def save(self, folder: Path) -> None:
        """See PolicyPort."""
        with self._turn:
            super().save(folder)


class LocalApart:
    """A trained policy with two copies of its weights: one generates while the other is updated."""

    def __init__(self, spec: WorkerSpec, spot: Spot, progress: Progress) -> None:
        self._spot = spot
        self._updater = UpdateWorker(replace(spec, name=f"update-{spec.policy}"), progress)
        self._rollout = RolloutWorker(replace(spec, name=f"rollout-{spec.policy}-0"))

    def start(self, resume_from: Path | None) -> Ready:
        """See PolicyPort."""
        ready = self._updater.start(resume_from)
        ready.spans.extend(self._rollout.start(None).spans)
        if ready.version > 0:
            ready.spans.extend(self.publish(ready.version, 0))
        return ready

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """See PolicyPort. Raises Superseded, WaitLeft."""
        self._spot()
        return self._rollout.generate(prompts, settings, version)

    def update(self, groups: list[Group], iteration: int, version: int, wanted: set[str]) -> PolicyUpdate:
        """See PolicyPort."""
        return self._updater.update(groups, iteration, version, wanted)

    def publish(self, version: int, iteration: int) -> list[Span]:
        """See PolicyPort."""
        return [self._rollout.load_weights(self._updater.weights(version), iteration)]

    def save(self, folder: Path) -> None:
        """See PolicyPort."""
        self._updater.save(folder)

    def system(self) -> System:
        """See PolicyPort."""
        whole = self._updater.system()
        whole.add(self._rollout.system())
        return whole

    def close(self) -> None:
        """See Watched."""
        self._updater.close()
        self._rollout.close()


class LocalCrew:
    """See Crew."""

    def __init__(self, attempt: Attempt, config: RunConfig, spots: Spots, progress: Progress) -> None:
        self._attempt = attempt
        self._spots = spots
        self._collecting = False

        def making(done: float, text: str) -> None:
            spots.starting()
            progress(done, text)

        def port(policy: str) -> LocalPolicy | LocalApart:
            spec = WorkerSpec(policy, policy, config, attempt.home)
            apart = config.policies[policy].devices.placement == "apart" and policy in config.trained_policies
            return (LocalApart if apart else LocalPolicy)(spec, self._spot, making)

        self._ports = {policy: port(policy) for policy in config.used_policies}
        self._router = Router(
            config,
            self._ports,
            EnvironmentHost(config.environment, config.run.seed),
            side_by_side=False,
            leaves=spots.leaves,
        )

    def start(self, resume_from: Path | None) -> Started:
        """See Crew."""
        started = self._router.start(self._attempt.number, resume_from)
        announce(started, self._attempt.folder)
        return started

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """See Crew."""
        self._router.play_ahead(completed, admission)

    def collect(self, iteration: int) -> Collected:
        """See Crew."""
        self._collecting = True
        try:
            with looking(self._spots.collecting):
                return self._router.collect(iteration)
        finally:
            self._collecting = False

    def update(self, iteration: int) -> Updated:
        """See Crew."""
        return self._router.update(iteration)

    def publish(self, iteration: int) -> list[Span]:
        """See Crew."""
        return self._router.publish(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """See Crew."""
        with looking(self._spots.evaluating):
            return self._router.evaluate(iteration, kind, episodes)

    def save(self, folder: Path) -> None:
        """See Crew."""
        self._router.save(folder)

    def system(self) -> System:
        """See Crew."""
        return self._router.system()

    def close(self) -> None:
        """See Crew."""
        self._router.close()
        for port in self._ports.values():
            port.close()

    def _spot(self) -> None:
        """Before every word of a policy. Raises Superseded, WaitLeft."""
        self._spots.running()
        if self._collecting and self._spots.hurried():
            raise WaitLeft("asked to end at once")
