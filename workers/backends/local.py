"""The backend of a local run: everything in this process, without Ray; the coordinator calls the policies' workers directly."""

from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import StopRequested
from training_core.llm.base_models.progress import Progress
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.policy_worker import PolicyWorker
from workers.actors.rollout_worker import RolloutWorker
from workers.actors.update_worker import UpdateWorker
from workers.backends.polling import looking
from workers.gateway.announcing import announce
from workers.protocol.records import (
    Attempt,
    Collected,
    EpisodeKind,
    Span,
    Started,
    StopCheck,
    StopChecks,
    System,
    Updated,
)
from workers.protocol.spec import Generated, PolicyUpdate, Ready, WorkerSpec


class LocalPolicy(PolicyWorker):
    """A policy's worker that looks, before it generates, whether the attempt must leave."""

    def __init__(self, spec: WorkerSpec, stop_check: StopCheck, progress: Progress) -> None:
        super().__init__(spec, progress)
        self._stop_check = stop_check
        self._turn = Lock()
        """One thread generates while another may write a checkpoint."""

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Raises Superseded, StopRequested."""
        self._stop_check()
        with self._turn:
            return super().generate(prompts, settings, version)

    def save(self, folder: Path) -> None:
        with self._turn:
            super().save(folder)


class LocalApart:
    """A trained policy with two copies of its weights: one generates while the other is updated."""

    def __init__(self, spec: WorkerSpec, stop_check: StopCheck, progress: Progress) -> None:
        self._stop_check = stop_check
        self._updater = UpdateWorker(replace(spec, name=f"update-{spec.policy}"), progress)
        self._rollout = RolloutWorker(replace(spec, name=f"rollout-{spec.policy}-0"))

    def start(self, resume_from: Path | None) -> Ready:
        ready = self._updater.start(resume_from)
        ready.spans.extend(self._rollout.start(None).spans)
        if ready.version > 0:
            ready.spans.extend(self.publish(ready.version, 0))
        return ready

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Raises Superseded, StopRequested."""
        self._stop_check()
        return self._rollout.generate(prompts, settings, version)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        return self._updater.update(groups, iteration, version, annotated)

    def publish(self, version: int, iteration: int) -> list[Span]:
        return [self._rollout.load_weights(self._updater.weights(version), iteration)]

    def save(self, folder: Path) -> None:
        self._updater.save(folder)

    def system(self) -> System:
        whole = self._updater.system()
        whole.add(self._rollout.system())
        return whole

    def close(self) -> None:
        self._updater.close()
        self._rollout.close()


class LocalBackend:
    """See TrainingBackend."""

    def __init__(
        self, attempt: Attempt, config: RunConfig, stop_checks: StopChecks, progress: Progress
    ) -> None:
        self._attempt = attempt
        self._stop_checks = stop_checks
        self._collecting = False

        def making(done: float, text: str) -> None:
            stop_checks.starting()
            progress(done, text)

        def proxy(policy: str) -> LocalPolicy | LocalApart:
            spec = WorkerSpec(policy, policy, config, attempt.home)
            apart = config.policies[policy].devices.placement == "apart" and policy in config.trained_policies
            return (LocalApart if apart else LocalPolicy)(spec, self._stop_check, making)

        self._proxies = {policy: proxy(policy) for policy in config.used_policies}
        self._coordinator = RolloutCoordinator(
            config,
            self._proxies,
            EnvironmentHost(config.environment, config.run.seed),
            side_by_side=False,
            leaves=stop_checks.stop_requested,
        )

    def start(self, resume_from: Path | None) -> Started:
        started = self._coordinator.start(self._attempt.number, resume_from)
        announce(started, self._attempt.folder)
        return started

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        self._coordinator.play_ahead(completed, admission)

    def collect(self, iteration: int) -> Collected:
        self._collecting = True
        try:
            with looking(self._stop_checks.collecting):
                return self._coordinator.collect(iteration)
        finally:
            self._collecting = False

    def update(self, iteration: int) -> Updated:
        return self._coordinator.update(iteration)

    def publish(self, iteration: int) -> list[Span]:
        return self._coordinator.publish(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        with looking(self._stop_checks.evaluating):
            return self._coordinator.evaluate(iteration, kind, episodes)

    def save(self, folder: Path) -> None:
        self._coordinator.save(folder)

    def system(self) -> System:
        return self._coordinator.system()

    def close(self) -> None:
        self._coordinator.close()
        for proxy in self._proxies.values():
            proxy.close()

    def _stop_check(self) -> None:
        """Before every word of a policy. Raises Superseded, StopRequested."""
        self._stop_checks.running()
        if self._collecting and self._stop_checks.must_end_now():
            raise StopRequested("asked to end at once")
