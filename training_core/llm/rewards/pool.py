"""Reward functions in separate processes, so that one that hangs, crashes or exhausts memory affects no other.

Based on AReaL's AsyncRewardWrapper: a call longer than `timeout` gives 0 and is counted; a call that raises or whose
process dies is retried. A process that timed out is killed with all its children, and replaced.
"""

import atexit
import json
import os
import queue
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any, Protocol

from training_core.config.rewards import JudgeReward, RewardFunction, RewardSection
from training_core.errors import EnvironmentFailure

REWARDS: dict[str, str] = {"math": "training_core.llm.rewards.math:MathReward", "custom": "", "judge": ""}
"""type -> import path; a custom function has its own, and a judge has none."""
_NOT_ARGUMENTS = {"type", "timeout", "retries", "processes", "memory_mib", "path", "args", "scores"}


def reward_source(section: RewardFunction) -> tuple[str, dict[str, Any]]:
    """(import path, keyword arguments) of a config's reward function."""
    own = section.model_dump(mode="json")
    args = {name: value for name, value in own.items() if name not in _NOT_ARGUMENTS}
    return REWARDS[section.type] or own["path"], args | own.get("args", {})


_WORKER = "training_core.llm.rewards.worker"
_STARTUP = 60.0
"""Seconds until a new process must report that it is ready; not part of the call's timeout."""


@dataclass(frozen=True)
class RewardResult:
    """The result of a reward function for an answer."""

    reward: float | None
    """None if the function does not apply to the answer."""
    timed_out: bool = False
    relative: bool = False
    """Whether the reward is a position among the group's answers, which says nothing about success."""
    parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    """The parts of the reward by name, if the function reports them."""


class Scorer(Protocol):
    """A reward function that is ready to be called. Thread-safe."""

    by_group: bool
    """Whether the answers of a group are scored together."""

    def score(self, request: dict[str, Any]) -> RewardResult:
        """One answer's reward: `request` contains the function's keyword arguments, as JSON types. Raises EnvironmentFailure."""
        ...

    def score_group(self, request: dict[str, Any]) -> list[RewardResult]:
        """The rewards of a group's answers; `completions` and `completion_ids` of the request are lists. Raises EnvironmentFailure."""
        ...


class _OutOfTime(Exception):
    """A process did not answer in time."""


class _Died(Exception):
    """A process ended before it answered."""


class _Process:
    """One worker process; see training_core/llm/rewards/worker.py."""

    def __init__(self, path: str, args: dict[str, Any], memory_mib: int) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", _WORKER, path, str(memory_mib)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        with suppress(OSError):  # if it has ended, its first answer is missing
            _pipe(self._child.stdin).write(json.dumps(args).encode() + b"\n")
            _pipe(self._child.stdin).flush()
        self._rest = b""
        self._ready = False

    def ask(self, request: bytes, seconds: float) -> dict[str, Any]:
        """Send a request; the timeout starts when the process is ready. Raises _OutOfTime, _Died."""
        if not self._ready:
            self._start()
        deadline = time.monotonic() + seconds
        try:
            _pipe(self._child.stdin).write(request)
            _pipe(self._child.stdin).flush()
        except OSError as error:
            raise _Died from error
        answer: dict[str, Any] = json.loads(self._line(deadline))
        return answer

    def _start(self) -> None:
        """Wait until the process reports that it is ready. A slow start is not caused by the answer, so it counts as a died process."""
        try:
            self._line(time.monotonic() + _STARTUP)
        except _OutOfTime as error:
            raise _Died(f"not ready after {_STARTUP:g} s") from error
        self._ready = True

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._rest:
            self._read(deadline)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _read(self, deadline: float) -> None:
        out = _pipe(self._child.stdout).fileno()
        if not select.select([out], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            raise _OutOfTime
        more = os.read(out, 65536)
        if not more:
            raise _Died
        self._rest += more

    def end(self) -> str:
        """Kill it with all its children; return how it ended."""
        code = self._child.poll()
        with suppress(ProcessLookupError):  # it has already ended
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(BrokenPipeError):  # unread output is lost with its reader
                _pipe(pipe).close()
        return f"exit code {code}" if code is not None else "killed"


class RewardPool:
    """Up to `processes` calls at the same time. Thread-safe."""

    def __init__(self, section: RewardFunction) -> None:
        self.by_group = bool(section.compares)
        self._section = section
        self._path, self._args = reward_source(section)
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(section.processes):
            self._idle.put(None)  # started when first needed
        atexit.register(self.close)

    def score(self, request: dict[str, Any]) -> RewardResult:
        """One answer's reward: `request` contains the function's keyword arguments, as JSON types.

        Raises EnvironmentFailure if the function still raises, or its process still dies, after all retries.
        """
        try:
            answer = self._answer(request)
            return RewardResult(answer["reward"], parts=answer["parts"])
        except _OutOfTime:
            return RewardResult(0.0, timed_out=True)

    def score_group(self, request: dict[str, Any]) -> list[RewardResult]:
        """The rewards of a group's answers, in one call. Raises EnvironmentFailure as `score`, and for another number of results."""
        count = len(request["completions"])
        try:
            answer = self._answer(request)
        except _OutOfTime:
            return [RewardResult(0.0, timed_out=True)] * count
        rewards = answer["reward"]
        if len(rewards) != count:
            raise EnvironmentFailure(
                f"reward function {self._path} returned {len(rewards)} results for {count} answers",
                remedy='return one number or None for each of the completions, or set reward.scores = "answer"',
            )
        return [
            RewardResult(reward, parts=parts) for reward, parts in zip(rewards, answer["parts"], strict=True)
        ]

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """`reward` and `parts` of one call, or lists of them. Raises EnvironmentFailure, _OutOfTime."""
        line = json.dumps(request).encode() + b"\n"
        reason = ""
        for _ in range(self._section.retries + 1):
            process = self._idle.get() or _Process(self._path, self._args, self._section.memory_mib)
            try:
                answer = process.ask(line, self._section.timeout)
            except (_OutOfTime, _Died) as error:
                ended = process.end()
                self._idle.put(None)
                if isinstance(error, _OutOfTime):
                    raise
                reason = f"its process died ({str(error) or ended})"
                continue
            self._idle.put(process)
            if "reward" in answer:
                return answer
            reason = str(answer["error"])
        raise EnvironmentFailure(
            f"reward function {self._path}: {reason} ({self._section.retries + 1} tries)"
        )

    def close(self) -> None:
        """End the idle processes; others end with this process."""
        idle = [
            self._idle.get() for _ in range(self._idle.qsize())
        ]  # all of them: the queue returns the last one put back first
        for process in idle:
            if process is not None:
                process.end()
            self._idle.put(None)


def reward_pool(section: RewardSection) -> Scorer:
    """The scorer of this process for a config, shared by its environments. Raises ConfigError if a judge's key is missing."""
    return _pool(type(section), section.model_dump_json())


@lru_cache(maxsize=8)
def _pool(kind: type[RewardSection], settings: str) -> Scorer:
    section = kind.model_validate_json(settings)
    if isinstance(section, RewardFunction):
        return RewardPool(section)
    from training_core.llm.rewards.judge import Judge  # which compares itself with a function of this module

    assert isinstance(section, JudgeReward)
    return Judge(section)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise _Died
    return pipe
