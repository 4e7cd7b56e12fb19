"""The event loop of a process, in which everything asynchronous of users runs: agents, rollout workflows, reward functions.

Their clients keep connections between calls, and a connection belongs to the loop in which it was opened. One loop that
lasts as long as the process keeps them usable.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

Result = TypeVar("Result")
_TASKS: ContextVar["WeakSet[asyncio.Task[Any]]"] = ContextVar("tasks")
"""The tasks of the scope in which code runs."""


class TaskScope:
    """Coroutines in the loop of the process that end together. Thread-safe."""

    _open = 0
    """Number of scopes that have not ended. The loop changes it."""

    def __init__(self) -> None:
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        _process_loop().call_soon_threadsafe(self._begin)

    def start(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Run a coroutine in the loop. Cancelling the future cancels it."""
        return copy_context().run(self._start, work)

    def end(self) -> "Future[None]":
        """Cancel the tasks that still run, those included that the coroutines have started, and wait until they have ended."""
        return asyncio.run_coroutine_threadsafe(self._end(), _process_loop())

    def _begin(self) -> None:
        if not TaskScope._open:  # threads of earlier scopes may never end, and would fill the executor
            _process_loop().set_default_executor(ThreadPoolExecutor())
        TaskScope._open += 1

    def _start(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        _TASKS.set(self._tasks)  # the loop creates the task in this context
        return asyncio.run_coroutine_threadsafe(work, _process_loop())

    async def _end(self) -> None:
        TaskScope._open -= 1
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)


async def in_process_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Await a coroutine that runs in the loop of the process. The tasks that it leaves behind end before this returns."""
    scope = TaskScope()
    try:
        return await asyncio.wrap_future(scope.start(work))
    finally:
        await asyncio.wrap_future(scope.end())


@lru_cache(maxsize=1)
def _process_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(_task)
    threading.Thread(target=_run, args=(loop,), name="event-loop", daemon=True).start()
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with suppress(SystemExit, KeyboardInterrupt):  # of a task: its waiter receives them, too
            loop.run_forever()


os.register_at_fork(after_in_child=_process_loop.cache_clear)  # a child has no thread of its parent


def _task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,
) -> "asyncio.Task[Any]":
    """A task that ends with the scope of the code that starts it."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    _TASKS.get(WeakSet()).add(task)
    return task
