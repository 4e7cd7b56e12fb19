"""One event loop per process: connections last, tasks end with their scope, and nothing stops the loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextvars import Context
from typing import Any

import pytest

from training_core.event_loop import TaskScope, in_process_loop


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(in_process_loop(work))


class Connection:
    """As a client keeps it: opened in the loop of the first call, and used by all later ones."""

    def __init__(self) -> None:
        self._wake: asyncio.Future[int] | None = None
        self._lock = asyncio.Lock()

    async def ask(self) -> int:
        async with self._lock:
            previous, self._wake = self._wake, asyncio.get_running_loop().create_future()
            return await previous if previous else 1

    def answer(self, value: int) -> None:
        assert self._wake is not None
        self._wake.get_loop().call_soon_threadsafe(self._wake.set_result, value)


def test_a_client_of_the_first_wave_serves_the_next() -> None:
    connection = Connection()
    assert run(connection.ask()) == 1
    connection.answer(2)
    assert run(connection.ask()) == 2


def test_tasks_that_a_wave_leaves_end_before_the_next() -> None:
    ended: list[str] = []

    async def stays(name: str) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def wave() -> str:
        started = [asyncio.create_task(stays("direct")), asyncio.create_task(nested())]
        await asyncio.sleep(0)
        return "done" if len(started) == 2 else ""

    async def nested() -> None:
        await asyncio.create_task(stays("nested"))

    other = TaskScope()
    beside = other.start(stays("beside"))
    assert run(wave()) == "done"
    assert sorted(ended) == ["direct", "nested"] and not beside.done()
    other.end().result()
    assert ended[-1] == "beside" and beside.cancelled()


async def _exits() -> None:
    await asyncio.create_task(_exit())


async def _exit() -> None:
    raise SystemExit(3)


async def _fails() -> None:
    raise ValueError("wrong")


@pytest.mark.parametrize(("work", "kind"), [(_exits, SystemExit), (_fails, ValueError)])
def test_what_a_wave_raises_reaches_the_caller_and_the_loop_goes_on(
    work: Callable[[], Coroutine[Any, Any, None]], kind: type[BaseException]
) -> None:
    with pytest.raises(kind):
        run(work())
    assert run(asyncio.sleep(0, "next")) == "next"


def test_threads_that_never_end_take_no_place_of_later_waves() -> None:
    release = threading.Event()

    async def blocked() -> None:
        for _ in range(64):  # more than an executor has threads
            asyncio.get_running_loop().run_in_executor(None, release.wait)

    run(blocked())
    try:
        assert run(asyncio.to_thread(int, "7")) == 7
    finally:
        release.set()


@pytest.mark.filterwarnings("error")
def test_work_that_starts_while_its_scope_ends_is_cancelled() -> None:
    """The work's task is cancelled before its first step."""
    scope, futures = TaskScope(), []
    begun: list[str] = []

    async def late() -> None:
        begun.append("late")

    async def early() -> None:
        futures.extend([Context().run(scope.end), scope.start(late())])
        await asyncio.sleep(600)

    first = scope.start(early())
    with pytest.raises(CancelledError):
        first.result(60)
    assert futures[0].result(60) is None and futures[1].cancelled() and begun == []
