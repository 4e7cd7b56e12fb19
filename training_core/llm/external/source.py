"""The source of external rollouts: started once, polled, and saved in checkpoints."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Literal

from training_core.config.rollout import RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import BufferFailure, StopRequested
from training_core.llm.external.buffer_client import BufferClient, Fetched, Record, connect

log = logging.getLogger(__name__)
_LOG_SECONDS = 30.0
"""Seconds between log lines while nothing arrives."""
_POLL_SECONDS = 0.5
"""Seconds between checks for a stop request."""
_NO_MINIMUM = -1e12
"""In evaluation no record is invalid: failed records count as failed."""


class RolloutSource:
    """Groups of a run's rollouts. A checkpoint stores `finished` and `delivery`.

    `stop_requested` returns whether the run should stop; waiting then ends with StopRequested.
    """

    def __init__(
        self, workflow: RolloutBuffer, config: RunConfig, stop_requested: Callable[[], bool] = lambda: False
    ) -> None:
        self.finished: list[str] = []
        """Instances of the groups that were delivered for training, one entry per group."""
        self.figures: dict[str, float] = {}
        """Metrics `buffer/...` of the last fetch."""
        self._workflow = workflow
        self._config = config
        self._stop_requested = stop_requested
        self._client: BufferClient | None = None
        self._delivery = 0
        self._waiting: list[list[Record]] = []
        self._last_evaluation: tuple[tuple[int, str], list[list[Record]]] | None = None
        """The last evaluation: (iteration, kind), groups."""

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint (JSON)."""
        return {"finished": self.finished, "delivery": self._delivery}

    def recall(self, state: Mapping[str, Any]) -> None:
        """Restore from a checkpoint: data used for training is not played again."""
        self.finished, self._delivery = (
            [str(instance) for instance in state["finished"]],
            int(state["delivery"]),
        )

    def take(self, count: int, engine_url: str) -> list[list[Record]]:
        """Wait for `count` groups; a generator requests answers from `engine_url`.

        Raises BufferFailure after workflow.retry_limit consecutive failed attempts, or if nothing more can arrive;
        StopRequested.
        """
        started = time.monotonic()
        if self._client is None:
            self._client = connect(self._workflow, self._workflow.channel)
            self._start(self._client, engine_url)
        wait = _RetryCounter(self._workflow, self._client.url, self._stop_requested)
        size = self._config.rollout.group_size
        while len(self._waiting) < count:
            fetched = wait.fetch(self._client, self._delivery, (count - len(self._waiting)) * size)
            if fetched is not None:
                self._delivery = fetched.delivery
                self._waiting += fetched.groups
                self.figures = _metrics(fetched.meta)
            wait.after(fetched, f"{len(self._waiting)} of {count} groups")
        received, self._waiting = self._waiting[:count], self._waiting[count:]
        self.finished += [str(group[0]["instance_id"]) for group in received]
        self.figures["buffer/waited"] = time.monotonic() - started
        return received

    def evaluate(
        self, iteration: int, kind: Literal["eval", "eval_sampled"], engine_url: str
    ) -> list[list[Record]]:
        """One record per held-out prompt, in the order of their ids; played once for each (iteration, kind)."""
        if self._last_evaluation is None or self._last_evaluation[0] != (iteration, kind):
            self._last_evaluation = (iteration, kind), self._evaluate(kind, engine_url)
        return self._last_evaluation[1]

    def _evaluate(self, kind: Literal["eval", "eval_sampled"], engine_url: str) -> list[list[Record]]:
        workflow, limit = self._workflow, self._config.evaluation.episodes
        client = connect(workflow, f"{workflow.channel or 'default'}-evaluation")
        temperature = 0.0 if kind == "eval" else self._config.evaluation.temperature
        request = self._request(workflow.evaluation_file, temperature, engine_url)
        single_pass = {"num_repeat_per_sample": 1, "num_epoch": 1, "num_prompts": limit}
        client.start_rollout(request | single_pass | {"fresh": True, "least_reward": _NO_MINIMUM})
        wait, delivery = _RetryCounter(workflow, client.url, self._stop_requested), 0
        groups: dict[str, list[Record]] = {}
        while len(groups) < limit:
            fetched = wait.fetch(client, delivery, None)
            if fetched is not None:
                delivery = fetched.delivery
                groups |= {str(group[0]["instance_id"]): group for group in fetched.groups}
                if not fetched.finished and _is_exhausted(fetched.meta) and groups:
                    break
            wait.after(fetched, f"{len(groups)} of at most {limit} evaluation episodes")
        client.stop_rollout()
        return [groups[name] for name in sorted(groups)]

    def close(self) -> None:
        """End the generator that the run started."""
        if self._client is not None and self._workflow.generator:
            with suppress(BufferFailure):  # the service is unreachable, and its generator too
                self._client.stop_rollout()

    def _start(self, client: BufferClient, engine_url: str) -> None:
        """Start the generator, once; without one, external programs write to the buffer."""
        workflow = self._workflow
        if not workflow.generator:
            return
        request = self._request(workflow.input_file, self._sampling().temperature, engine_url)
        request |= {
            "num_repeat_per_sample": self._config.rollout.group_size,
            "num_epoch": workflow.epochs,
            "max_records": max(
                1, int(workflow.ahead * self._config.rollout.tasks * self._config.rollout.group_size)
            ),
            "skip_instance_ids": self.finished,
            "delivery": self._delivery,
            "fresh": not self.finished,
        }
        client.start_rollout(request)
        log.info(
            "rollout of %s started at %s, %d groups skipped",
            workflow.generator,
            client.url,
            len(self.finished),
        )

    def _request(self, file: str, temperature: float, engine_url: str) -> dict[str, Any]:
        workflow, sampling = self._workflow, self._sampling()
        params: dict[str, Any] = {
            "max_tokens": sampling.max_tokens,
            "temperature": temperature,
            "top_p": sampling.top_p,
        }
        if sampling.top_k:
            params["top_k"] = sampling.top_k
        return {
            "task_type": workflow.generator,
            "input_file": file,
            "num_process": workflow.processes,
            "remote_engine_url": engine_url,
            "sampling_params": params,
        }

    def _sampling(self) -> Any:
        """Sampling settings of the first trained role."""
        roles = self._config.team.roles
        return next(roles[name] for name in self._config.team.order if roles[name].trained).sampling


class _RetryCounter:
    """Counts consecutive failed attempts, and handles each."""

    def __init__(self, workflow: RolloutBuffer, url: str, stop_requested: Callable[[], bool]) -> None:
        self._workflow = workflow
        self._url = url
        self._stop_requested = stop_requested
        self._failed_attempts = 0
        self._reason = ""
        self._began = self._logged = time.monotonic()

    def fetch(self, client: BufferClient, delivery: int, limit: int | None) -> Fetched | None:
        """One attempt; None if the service is unreachable or refuses."""
        try:
            return client.fetch(delivery, limit)
        except BufferFailure as error:
            self._reason = str(error)
            return None

    def after(self, fetched: Fetched | None, status: str) -> None:
        """Wait for the next attempt, unless data arrived. Raises BufferFailure, StopRequested."""
        if fetched is not None and fetched.finished:
            self._failed_attempts = 0
            return
        self._failed_attempts += 1
        if fetched is not None:
            self._reason = f"no group is complete; {_status(fetched.meta)}"
            self._check_not_exhausted(fetched.meta)
        limit = self._workflow.retry_limit
        if limit >= 0 and self._failed_attempts > limit:
            raise BufferFailure(
                f"no rollouts arrived from {self._url} in {self._failed_attempts} attempts "
                f"({time.monotonic() - self._began:.0f} s), with {status}: {self._reason}. workflow.retry_limit "
                "sets how long to wait, -1 indefinitely"
            )
        if time.monotonic() - self._logged > _LOG_SECONDS:
            self._logged = time.monotonic()
            log.info("waiting for rollouts: %s; %s", status, self._reason)
        self._pause(self._workflow.poll_interval if fetched is not None else self._workflow.retry_interval)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            if self._stop_requested():
                raise StopRequested(f"stop requested while waiting for rollouts from {self._url}")
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _POLL_SECONDS))

    def _check_not_exhausted(self, meta: Mapping[str, Any]) -> None:
        """Raise if the generator has failed or ended and nothing is left: waiting longer would have no effect."""
        rollout = meta.get("rollout", {})
        if rollout.get("state") == "failed":
            raise BufferFailure(f"the generator {rollout['task_type']} failed: {rollout['error']}")
        if _is_exhausted(meta):
            raise BufferFailure(
                f"the generator {rollout['task_type']} has played all its prompts ({_status(meta)}), but more are needed; "
                "raise workflow.epochs, or give a longer workflow.input_file"
            )


def _is_exhausted(meta: Mapping[str, Any]) -> bool:
    buffer = meta.get("buffer", {})
    left = buffer.get("open_groups", 1) + buffer.get("ready_groups", 1)
    return bool(meta.get("rollout", {}).get("state") == "finished" and left == 0)


def _status(meta: Mapping[str, Any]) -> str:
    buffer = meta.get("buffer", {})
    return (
        f"{buffer.get('open_groups', 0)} groups are open, {buffer.get('groups_dropped', 0)} were dropped, "
        f"the rollout is {meta.get('rollout', {}).get('state', 'unknown')}"
    )


def _metrics(meta: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of the service and of the plugin's get_group_data_meta_info, as metrics."""
    numbers = {f"buffer/{name}": value for name, value in meta.get("buffer", {}).items()}
    numbers |= {
        f"buffer/{name}": value
        for name, value in meta.items()
        if name not in ("delivery", "buffer", "rollout")
    }
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and isfinite(value) and len(name) <= 200
    }
