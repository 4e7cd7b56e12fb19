"""One process that judges answers: requests come in as lines of JSON, judgements go out as lines of JSON.

    python -m training_core.llm.rewards.worker PATH ARGS_AS_JSON

Started and ended by training_core/llm/rewards/pool.py. What a reward function prints goes to stderr.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from training_core.importing import made


def main(path: str, args: dict[str, Any]) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    function: Callable[..., Any] | None = None
    for line in sys.stdin:
        try:
            function = function or made(path, args, "reward.path")
            said: dict[str, Any] = {"reward": judge(function, json.loads(line))}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def judge(function: Callable[..., Any], request: dict[str, Any]) -> float:
    """What a function, sync or async, makes of one answer. Raises what it raises, and TypeError for what is no number."""
    found = function(**request)
    if inspect.isawaitable(found):
        found = asyncio.run(_awaited(found))
    if isinstance(found, bool | int | float) or hasattr(found, "__float__"):
        return float(found)
    raise TypeError(f"a reward is a number, not {type(found).__name__}")


async def _awaited(found: Any) -> Any:
    return await found


def _leave_with_parent(parent: int) -> None:
    """A function that never returns must not outlive the run."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
