"""The source of external rollouts: a channel of a rollout buffer service, polled, and saved in checkpoints."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from training_core.checkpoints import read_errors_explained, write_errors_explained
from training_core.config.rollout import SERVICE_HEADER, RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import BufferFailure, StopRequested
from training_core.served import address_refused

log = logging.getLogger(__name__)
Record = dict[str, Any]
FILE = "rollout_buffer.json"
"""In a checkpoint: which prompts are done; in TROUPE_HOME: the address of this machine's service."""
_TIMEOUT, _CONNECT_TIMEOUT = 120.0, 10.0
"""Seconds."""
_LOG_SECONDS = 30.0
"""Seconds between log lines while nothing arrives."""
_POLL_SECONDS = 0.5
"""Seconds between checks for a stop request."""
_NO_MINIMUM = -1e12
"""In evaluation no record is invalid: failed records count as failed."""
logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per poll would fill the run's log


@dataclass(frozen=True)
class Fetched:
    """One response of the service."""

    groups: list[list[Record]]
    """Received records, by instance."""
    finished: list[str]
    """Instances of received groups, including those without delivered records."""
    delivery: int
    meta: dict[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether nothing arrived, the generator has ended, and the buffer has no group left."""
        buffer = self.meta.get("buffer", {})
        left = buffer.get("open_groups", 1) + buffer.get("ready_groups", 1)
        return not self.finished and self.meta.get("rollout", {}).get("state") == "finished" and not left


class BufferClient:
    """One channel of a service. Every call raises BufferFailure if the service refuses or is unreachable."""

    def __init__(self, url: str, token: str, channel: str = "") -> None:
        self.url = url.rstrip("/") + (f"/channels/{channel}" if channel else "")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def fetch(self, delivery: int, limit: int | None) -> Fetched:
        """Complete groups, about `limit` records; `delivery` is the last one that was received."""
        body = {"delivery": delivery} | ({"batch_size": limit} if limit else {})
        answer = self.post("/get_rollout_data", body)["data"]
        data, meta = answer["data"], answer["meta_info"]
        groups: dict[str, list[Record]] = {}
        for record in data:
            groups.setdefault(str(record["instance_id"]), []).append(record)
        return Fetched(list(groups.values()), list(meta["finished_groups"]), int(meta["delivery"]), meta)

    def post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request: `/start_rollout` starts a generator, `/stop_rollout` stops it."""
        import httpx  # only here: a machine that trains from a script may lack it

        try:
            answer = httpx.post(
                self.url + path,
                json=dict(content),
                headers=self._headers,
                trust_env=False,
                timeout=httpx.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
            )
            body = answer.json()
        except httpx.InvalidURL as error:
            raise BufferFailure(
                f"workflow.url = {self.url!r} is not a URL", remedy="use http://host:8889"
            ) from error
        except (httpx.HTTPError, ValueError) as error:
            raise BufferFailure(
                f"the rollout buffer at {self.url} does not answer ({type(error).__name__})",
                remedy="start it with `troupe buffer serve`",
            ) from error
        if not answer.is_success or not isinstance(body, dict):
            reason, ours = f"HTTP status {answer.status_code}", SERVICE_HEADER in answer.headers
            if ours and isinstance(
                body, dict
            ):  # the text of another server is not shown to those who chose the address
                reason = str(body.get("message"))
            raise BufferFailure(f"the rollout buffer at {self.url} refused: {reason}")
        return body


def connect(workflow: RolloutBuffer, channel: str) -> BufferClient:
    """Connect to the service in the config, or to the one on this machine. Raises BufferFailure if there is none.

    The token of this machine's service is only sent to that service's address.
    """
    token = os.environ.get(workflow.token_env, "").strip()
    file = Path(os.environ.get("TROUPE_HOME", "").strip() or "var") / FILE
    local: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    url = workflow.url or str(local.get("url", ""))
    if not url:
        raise BufferFailure(
            f"there is no rollout buffer on this machine (no {file})",
            remedy="start it with `troupe buffer serve`, or set workflow.url",
        )
    if reason := address_refused(url):
        raise BufferFailure(f"the rollout buffer at {url} is not asked: {reason}")
    if not token and url.rstrip("/") == local.get("url"):
        token = str(local["token"])
    return BufferClient(url, token, channel)


def save_external(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Write it into a checkpoint's draft. Raises CheckpointError."""
    with write_errors_explained(f"the checkpoint {checkpoint}"):
        (checkpoint / FILE).write_text(json.dumps(state))


def read_external(checkpoint: Path) -> dict[str, Any]:
    """The stored state; empty if the checkpoint has none, as one of another workflow.

    Raises CheckpointError.
    """
    path = checkpoint / FILE
    if not path.is_file():
        return {"finished": [], "delivery": 0}
    with read_errors_explained(checkpoint, "a rollout buffer's run"):
        state = json.loads(path.read_text())
        if not isinstance(state, dict):
            raise ValueError(f"{FILE} is not what Troupe writes")
        return state


class ExternalWait:
    """What a run waits for that programs outside of it do, and the end of that waiting by a stop. Thread-safe."""

    def __init__(self, stop_requested: Callable[[], bool] = lambda: False) -> None:
        """`stop_requested` returns whether the run should stop."""
        self._stop_requested = stop_requested
        self._ended = threading.Event()
        self.reason = ""
        """What the run waits for, for people; empty while it does not wait."""

    def end(self) -> None:
        """End all waiting, now and later."""
        self._ended.set()

    def check(self, reason: str) -> None:
        """Wait for `reason`; empty: no longer wait. Raises StopRequested if the run should stop."""
        self.reason = reason
        if self._ended.is_set() or self._stop_requested():
            self.reason = ""
            raise StopRequested(f"a stop was requested while the run {reason or 'called outside programs'}")


class RolloutSource:
    """Groups of a run's rollouts. A checkpoint stores `finished` and `delivery`. A stop ends its `waiting`."""

    def __init__(
        self, workflow: RolloutBuffer, config: RunConfig, waiting: ExternalWait | None = None
    ) -> None:
        self.finished: list[str] = []
        """Instances of the groups that were delivered for training, one entry per group."""
        self.figures: dict[str, float] = {}
        """Metrics `buffer/...` of the last fetch."""
        self._workflow = workflow
        self._config = config
        self._waiting_for = waiting or ExternalWait()
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
        reader = _Reader(self._workflow, self._client, self._waiting_for)
        while (missing := count - len(self._waiting)) > 0:
            limit = missing * self._config.rollout.group_size
            status = f"{len(self._waiting)} of {count} groups"
            fetched = reader.fetch(self._delivery, limit, status)
            if fetched is not None:
                self._delivery = fetched.delivery
                self._waiting += fetched.groups
                self.figures = _metrics(fetched.meta)
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
        client.post("/start_rollout", request | single_pass | {"fresh": True, "least_reward": _NO_MINIMUM})
        reader, delivery = _Reader(workflow, client, self._waiting_for), 0
        groups: dict[str, list[Record]] = {}
        while len(groups) < limit:
            status = f"{len(groups)} of at most {limit} evaluation episodes"
            fetched = reader.fetch(delivery, None, status, may_end=bool(groups))
            if fetched is not None:
                delivery = fetched.delivery
                groups |= {str(group[0]["instance_id"]): group for group in fetched.groups}
                if fetched.is_last:
                    break
        client.post("/stop_rollout", {})
        return [groups[name] for name in sorted(groups)]

    def close(self) -> None:
        """End the generator that the run started."""
        if self._client is not None and self._workflow.generator:
            with suppress(BufferFailure):  # the service is unreachable, and its generator too
                self._client.post("/stop_rollout", {})

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
        client.post("/start_rollout", request)
        skipped = len(self.finished)
        log.info("rollout of %s started at %s, %d groups skipped", workflow.generator, client.url, skipped)

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


class _Reader:
    """Fetches from one channel. Counts failed attempts in a row, and waits between them."""

    def __init__(self, workflow: RolloutBuffer, client: BufferClient, waiting: ExternalWait) -> None:
        self._workflow = workflow
        self._client = client
        self._waiting = waiting
        self._failed_attempts = 0
        self._began = self._logged = time.monotonic()

    def fetch(
        self, delivery: int, limit: int | None, status: str, *, may_end: bool = False
    ) -> Fetched | None:
        """One attempt, and a pause unless data arrived; None if the service is unreachable or refuses.

        Raises StopRequested, BufferFailure after too many attempts, or if nothing more can arrive, unless it `may_end`.
        """
        fetched = None
        try:
            fetched = self._client.fetch(delivery, limit)
            reason = f"no group is complete; {_status(fetched.meta)}"
        except BufferFailure as error:
            reason = str(error)
        if fetched is not None and (fetched.finished or (may_end and fetched.is_last)):
            self._failed_attempts = 0
            self._waiting.reason = ""
            return fetched
        self._failed_attempts += 1
        if fetched is not None:
            _check_not_exhausted(fetched)
        tolerated = self._workflow.retry_limit
        if tolerated >= 0 and self._failed_attempts > tolerated:
            raise BufferFailure(
                f"no rollouts arrived from {self._client.url} in {self._failed_attempts} attempts "
                f"({time.monotonic() - self._began:.0f} s), with {status}: {reason}.",
                remedy="workflow.retry_limit sets how long to wait, -1 indefinitely",
            )
        if time.monotonic() - self._logged > _LOG_SECONDS:
            self._logged = time.monotonic()
            log.info("waiting for rollouts: %s; %s", status, reason)
        pause = self._workflow.poll_interval if fetched is not None else self._workflow.retry_interval
        self._pause(pause, f"{status}; {reason}")
        return fetched

    def _pause(self, seconds: float, status: str) -> None:
        """Raises StopRequested."""
        until = time.monotonic() + seconds
        while True:
            waited = time.monotonic() - self._began
            self._waiting.check(f"waits for rollouts from {self._client.url} for {waited:.0f} s: {status}")
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _POLL_SECONDS))


def _check_not_exhausted(fetched: Fetched) -> None:
    """Raise if the generator has failed or ended and nothing is left: waiting longer would have no effect."""
    rollout = fetched.meta.get("rollout", {})
    if rollout.get("state") == "failed":
        raise BufferFailure(f"the generator {rollout['task_type']} failed: {rollout['error']}")
    if fetched.is_last:
        raise BufferFailure(
            f"the generator {rollout['task_type']} has played all its prompts ({_status(fetched.meta)}), but more are needed",
            remedy="raise workflow.epochs, or give a longer workflow.input_file",
        )


def _status(meta: Mapping[str, Any]) -> str:
    buffer = meta.get("buffer", {})
    return (
        f"{buffer.get('open_groups', 0)} groups are open, {buffer.get('groups_dropped', 0)} were dropped, "
        f"the rollout is {meta.get('rollout', {}).get('state', 'unknown')}"
    )


def _metrics(meta: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of the service and of the plugin's get_group_data_meta_info, as metrics."""
    figures = {name: value for name, value in meta.items() if name not in ("delivery", "buffer", "rollout")}
    return {
        f"buffer/{name}": float(value)
        for name, value in (meta.get("buffer", {}) | figures).items()
        if isinstance(value, int | float) and isfinite(value) and len(f"buffer/{name}") <= 200
    }
