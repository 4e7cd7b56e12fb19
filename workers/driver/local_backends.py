"""Backends of runs in this process, without Ray: of language models, and of small networks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread, current_thread

from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig
from training_core.errors import StopRequested
from training_core.llm.base_models.folder_creation import Progress
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Group, Prompt
from workers.actors.coordinator import RolloutCoordinator
from workers.actors.marl_worker import MarlWorker
from workers.actors.policy_workers import PolicyWorker, RolloutWorker, UpdateWorker
from workers.gateway.gateway import announce, retract
from workers.protocol import (
    Attempt,
    Collected,
    EpisodeKind,
    Generated,
    PolicyProxy,
    PolicyUpdate,
    Ready,
    Span,
    Started,
    StopCheck,
    StopChecks,
    Superseded,
    System,
    Updated,
    WorkerSpec,
)

log = logging.getLogger(__name__)
POLL_SECONDS = 0.5


@contextmanager
def polling(stop_check: StopCheck) -> Iterator[None]:
    """Call `stop_check` every half second inside the block. The block waits for a call in progress."""
    ended = Event()

    def poll() -> None:
        while not ended.wait(POLL_SECONDS):
            try:
                stop_check()
            except Superseded:
                return  # the thread that plays raises it too
            except Exception:
                log.exception(
                    "a stop request could not be handled during play; it is handled after the iteration"
                )
                return

    thread = Thread(target=poll, name=f"{current_thread().name}/polling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class LocalPolicy(PolicyWorker):
    """A policy's worker that checks for a stop request before it generates."""

    def __init__(self, spec: WorkerSpec, stop_check: StopCheck, progress: Progress) -> None:
        super().__init__(spec, progress)
        self._stop_check = stop_check
        self._turn = Lock()
        """One thread generates while another may write a checkpoint."""

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Raises Superseded, StopRequested, EngineFailure."""
        self._stop_check()
        with self._turn:
            return super().generate(prompts, settings, version)

    def save(self, folder: Path) -> None:
        """Wait for a running generation, then write the policy into a checkpoint. Raises CheckpointError."""
        with self._turn:
            super().save(folder)


class TwoModelPolicy(PolicyProxy):
    """A trained policy with two instances of its model in this process: one generates while the other is updated."""

    def __init__(self, spec: WorkerSpec, stop_check: StopCheck, progress: Progress) -> None:
        self._stop_check = stop_check
        update = replace(spec, name=f"update-{spec.policy}", gpus=spec.section.devices.update_gpus)
        self._updater = UpdateWorker(update, progress)
        self._rollout = RolloutWorker(replace(spec, name=f"rollout-{spec.policy}-0"))

    def start(self, resume_from: Path | None) -> Ready:
        ready = self._updater.start(resume_from)
        ready.spans.extend(self._rollout.start(None).spans)
        if ready.version > 0:
            ready.spans.extend(self.publish(ready.version, 0))
        return ready

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        self._stop_check()
        return self._rollout.generate(prompts, settings, version)

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        return self._updater.update(groups, iteration, version, annotated)

    def publish(self, version: int, iteration: int) -> list[Span]:
        return [self._rollout.load_weights(self._updater.weights(version), iteration)]

    def save(self, folder: Path) -> None:
        self._updater.save(folder)

    def system(self) -> System:
        system = self._updater.system()
        system.add(self._rollout.system())
        return system

    def close(self) -> None:
        """Stop monitoring the device."""
        self._updater.close()
        self._rollout.close()


class LocalBackend(RolloutCoordinator):
    """A coordinator that constructs its policies, and polls for stop requests while tasks are played."""

    def __init__(
        self, attempt: Attempt, config: RunConfig, stop_checks: StopChecks, progress: Progress
    ) -> None:
        self._folder = attempt.folder
        self._stop_checks = stop_checks
        self._collecting = False
        self._at_start: Started | None = None

        def loading(done: float, text: str) -> None:
            stop_checks.starting()
            progress(done, text)

        def policy_of(name: str) -> LocalPolicy | TwoModelPolicy:
            devices = config.policies[name].devices
            spec = WorkerSpec(name, name, config, attempt.home, devices.rollout_gpus, one_process=True)
            apart = devices.placement == "apart" and name in config.trained_policies
            return (TwoModelPolicy if apart else LocalPolicy)(spec, self._stop_check, loading)

        self._policies = {name: policy_of(name) for name in config.used_policies}
        super().__init__(
            config,
            self._policies,
            EnvironmentHost(config.environment, config.run.seed),
            attempt=attempt.number,
            side_by_side=False,
            stop_requested=stop_checks.stop_requested,
        )

    def start(self, resume_from: Path | None) -> Started:
        """Start the policies, and write the gateway's address to the run folder."""
        self._at_start = super().start(resume_from)
        announce(self._at_start, self._folder)
        return self._at_start

    def collect(self, iteration: int) -> Collected:
        """Play the iteration's tasks. Raises StopRequested if the attempt must end immediately."""
        self._collecting = True
        try:
            with polling(self._stop_checks.collecting), self._reporting_waits():
                return super().collect(iteration)
        finally:
            self._collecting = False

    def update(self, iteration: int) -> Updated:
        """As the coordinator's; before the first update the engines of all policies release memory, since they share a device."""
        for policy in self._policies.values():
            if isinstance(policy, LocalPolicy):
                policy.release_store()
        return super().update(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int, first: int = 0) -> Collected:
        """Play held-out tasks."""
        with polling(self._stop_checks.evaluating), self._reporting_waits():
            return super().evaluate(iteration, kind, episodes, first)

    @contextmanager
    def _reporting_waits(self) -> Iterator[None]:
        """Tell what the run waits for inside the block."""
        try:
            with polling(lambda: self._stop_checks.waiting(self.external_wait())):
                yield
        finally:
            self._stop_checks.waiting("")

    def close(self) -> None:
        """End the coordinator's threads and the monitoring of devices."""
        retract(self._at_start, self._folder)
        super().close()
        for policy in self._policies.values():
            policy.close()

    def _stop_check(self) -> None:
        """Called before each generation. Raises Superseded, StopRequested."""
        self._stop_checks.running()
        if self._collecting and self._stop_checks.must_end_now():
            raise StopRequested("asked to end at once")


class LocalNetworksBackend(MarlWorker):
    """A worker that checks for stop requests before and while it plays."""

    def __init__(
        self, attempt: Attempt, config: MarlConfig, stop_checks: StopChecks, progress: Progress
    ) -> None:
        """There are no base models, whose loading `progress` would report."""
        super().__init__(config, attempt=attempt.number)
        self._stop_checks = stop_checks

    def start(self, resume_from: Path | None) -> Started:
        """Make networks and environments. Raises Superseded, StoppedBeforeStart, and what MarlWorker raises."""
        self._stop_checks.starting()
        return super().start(resume_from)

    def collect(self, iteration: int) -> Collected:
        """Play one iteration. Raises Superseded."""
        self._stop_checks.running()
        with polling(self._stop_checks.collecting):
            return super().collect(iteration)

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """Play evaluation episodes. Raises Superseded."""
        self._stop_checks.running()
        with polling(self._stop_checks.evaluating):
            return super().evaluate(iteration, kind, episodes)
