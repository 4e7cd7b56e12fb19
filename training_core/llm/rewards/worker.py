"""A process that scores answers: it reads requests and writes results as lines of JSON.

    python -m training_core.llm.rewards.worker PATH MEMORY_MIB

Started and ended by training_core/llm/rewards/pool.py. The first line of the input has the arguments of the reward
function: they may be secret, and all users of a machine see command lines. The first line of the output, {"ready"},
reports that the reward function is imported and constructed. Its prints go to stderr. MEMORY_MIB limits the address
space; 0: no limit.
"""

import asyncio
import inspect
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from training_core.event_loop import in_process_loop
from training_core.importing import made


def main(path: str, memory_mib: int) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    if memory_mib:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib << 20, memory_mib << 20))

    def reply(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    function, error_reply = _function(path, json.loads(sys.stdin.readline()))
    reply({"ready": True})
    for line in sys.stdin:
        try:
            request = json.loads(line)
            reply(_answer(function, request) if function else error_reply)
        except Exception as error:
            reply(_error_reply(error))


def _function(path: str, args: dict[str, Any]) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The reward function, or the answer with the reason why it cannot be loaded."""
    try:
        return made(path, args, "reward.path"), {}
    except Exception as error:
        return None, _error_reply(error)


class Scored(NamedTuple):
    """What a reward function returns for an answer."""

    reward: float | None
    parts: dict[str, float]
    """The parts of the reward by name, if the function returns a dict."""


def _answer(function: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request: a reward and its parts, or lists of them."""
    if not isinstance(request.get("completions"), list):
        return _scored(_result(function, request))._asdict()
    group = scores(function, request)
    return {"reward": [result.reward for result in group], "parts": [result.parts for result in group]}


def _error_reply(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"[:2000]}


def score(function: Callable[..., Any], request: dict[str, Any]) -> float | None:
    """The reward by a function, sync or async, for one answer; None if it does not apply to the answer. Propagates
    its exceptions; raises TypeError if the result is neither a number, nor a dict with one as "reward", nor None.
    """
    return _scored(_result(function, request)).reward


def scores(function: Callable[..., Any], request: dict[str, Any]) -> list[Scored]:
    """The results of a function that scores all answers of a group. Raises TypeError as `score`."""
    result = _result(function, request)
    if not isinstance(result, Iterable) or isinstance(result, Mapping):
        raise TypeError(f"the rewards of a group must be a list, not {type(result).__name__}")
    return [_scored(reward) for reward in result]


def _scored(result: Any) -> Scored:
    if not isinstance(result, Mapping):
        return Scored(_number(result), {})
    if "reward" not in result:
        raise TypeError(
            f"a dict of a reward function needs the key 'reward'; it has {sorted(map(str, result))}"
        )
    parts = {str(name): _number(part) for name, part in result.items() if name != "reward"}
    return Scored(_number(result["reward"]), {name: part for name, part in parts.items() if part is not None})


def _result(function: Callable[..., Any], request: dict[str, Any]) -> Any:
    result = function(**request)
    return asyncio.run(in_process_loop(_awaited(result))) if inspect.isawaitable(result) else result


def _number(result: Any) -> float | None:
    if result is None:
        return None
    if isinstance(result, bool | int | float) or hasattr(result, "__float__"):
        return float(result)
    raise TypeError(
        f"a reward must be a number, not {type(result).__name__}; return None to leave the answer out"
    )


async def _awaited(result: Any) -> Any:
    return await result


def _exit_with_parent(parent: int) -> None:
    """End with the parent process: a function that never returns must not outlive the run."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
