"""A process that scores answers: it reads requests and writes results as lines of JSON.

    python -m training_core.llm.rewards.worker PATH ARGS_AS_JSON MEMORY_MIB

Started and ended by training_core/llm/rewards/pool.py. The first line, {"ready"}, reports that the reward function is
imported and constructed. Its prints go to stderr. MEMORY_MIB limits the address space; 0: no limit.
"""

import asyncio
import inspect
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from training_core.importing import made


def main(path: str, args: dict[str, Any], memory_mib: int) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    if memory_mib:
        resource.setrlimit(resource.RLIMIT_AS, (memory_mib << 20, memory_mib << 20))

    def tell(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    function, failed = _function(path, args)
    tell({"ready": True})
    for line in sys.stdin:
        try:
            tell({"reward": judge(function, json.loads(line))} if function else failed)
        except Exception as error:
            tell(_told(error))


def _function(path: str, args: dict[str, Any]) -> tuple[Callable[..., Any] | None, dict[str, Any]]:
    """The reward function, or the answer with the reason why it cannot be loaded."""
    try:
        return made(path, args, "reward.path"), {}
    except Exception as error:
        return None, _told(error)


def _told(error: Exception) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}"[:2000]}


def judge(function: Callable[..., Any], request: dict[str, Any]) -> float:
    """The result of a function, sync or async, for one answer. Propagates its exceptions; raises TypeError if the
    result is not a number.
    """
    found = function(**request)
    if inspect.isawaitable(found):
        found = asyncio.run(_awaited(found))
    if isinstance(found, bool | int | float) or hasattr(found, "__float__"):
        return float(found)
    raise TypeError(f"a reward must be a number, not {type(found).__name__}")


async def _awaited(found: Any) -> Any:
    return await found


def _leave_with_parent(parent: int) -> None:
    """End with the parent process: a function that never returns must not outlive the run."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))
