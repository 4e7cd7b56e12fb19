"""`manage.py up`: start all services on this machine, keep them running, end them together.

Does not import Django: this process only supervises its children, and is ready before they have imported anything.
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import psutil

from webapp.config import environment as env
from webapp.stack.home import MODEL_IN_WORK, Home, StackError, StackFacts
from webapp.stack.plan import CORE, Plan, make_plan
from webapp.stack.processes import adopt_orphans, end_processes, tagged
from webapp.stack.supervisor import Supervisor, Terminal

REAP_EVERY = 10.0
GROUPS = (("demo", "base-model", "prepare", "beat"), ("web", "worker", "ray"), ("redis", "postgres"))
"""The order of shutdown: a server ends after the processes that write to it."""


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 after Ctrl-C or SIGTERM, 1 if the stack cannot start."""
    parser = argparse.ArgumentParser("up", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--host", help="instead of TROUPE_HOST (127.0.0.1)")
    parser.add_argument(
        "--port", type=int, help="instead of TROUPE_PORT (8000); if it is in use, the next free port"
    )
    parser.add_argument(
        "--no-demo", action="store_true", help="do not launch the demonstration (TROUPE_DEMO=0)"
    )
    options = parser.parse_args(arguments)
    chosen = {
        "TROUPE_HOST": options.host,
        "TROUPE_PORT": options.port,
        "TROUPE_DEMO": 0 if options.no_demo else None,
    }
    os.environ |= {name: str(value) for name, value in chosen.items() if value is not None}
    terminal = Terminal()
    try:
        _up(Home(env.home()), terminal)
    except StackError as error:
        terminal.close()
        terminal.error(str(error))
        return 1
    return 0


def _up(home: Home, terminal: Terminal) -> None:
    home.make()
    os.umask(0o077)
    lock = home.lock()
    try:
        killed = _clean_up_after_killed(home, terminal)
        adopt_orphans()
        plan = make_plan(home, runs_wait=killed)
        try:
            asyncio.run(_run(plan, terminal))
        finally:
            home.forget_facts()
            shutil.rmtree(plan.scratch, ignore_errors=True)
    finally:
        os.close(lock)


def _clean_up_after_killed(home: Home, terminal: Terminal) -> bool:
    """End processes left by an `up` that was killed, identified by its id. Returns whether one was killed."""
    facts = home.read_facts()
    if facts is None:
        home.forget_facts()
        return False
    count = end_processes(tagged("TROUPE_STACK_ID", facts.id), grace=30.0)
    if count:
        terminal.say(f"Ended {count} processes left by an earlier start.")
    if Path(facts.scratch).name.startswith("troupe-"):
        shutil.rmtree(facts.scratch, ignore_errors=True)
    home.forget_facts()
    return True


async def _run(plan: Plan, terminal: Terminal) -> None:
    stack_id = secrets.token_hex(12)
    wanted = {
        name: value
        for name, value in plan.environment.items()
        if name not in ("PYTHONPATH", "PYTHONUNBUFFERED")
    }
    plan.home.write_facts(StackFacts(stack_id, os.getpid(), plan.url, str(plan.scratch), wanted))
    supervisor = Supervisor(stack_id, plan.home.logs, terminal)
    asked = _asked_to_end()
    terminal.say(f"Troupe starts. Data and logs: {plan.home.root}")
    if plan.port != env.number("TROUPE_PORT", 8000):
        terminal.say(f"Port {env.number('TROUPE_PORT', 8000)} is in use; the pages are at {plan.public_url}")
    reaper = asyncio.create_task(_reap(supervisor))
    try:
        await _until_first_failure(_start(plan, supervisor, terminal), asked)
    finally:
        reaper.cancel()
        terminal.close()
        terminal.say("Stopping; press Ctrl-C again to kill all processes.")
        await _stop(supervisor, asked)
        plan.listener.close()
    terminal.say("Stopped; no process is left running.")


async def _start(plan: Plan, supervisor: Supervisor, terminal: Terminal) -> None:
    """Start all services, then supervise them; returns only by an exception."""
    keepers = [supervisor.keep(service) for service in plan.redis() + plan.ray_head()]
    if plan.bundled_postgres:
        keepers.append(supervisor.keep(await asyncio.to_thread(plan.postgres)))
    keepers += [supervisor.keep(service) for service in plan.django_services()]
    tasks = [*keepers, asyncio.create_task(_open_doors(plan, supervisor, terminal))]
    models = asyncio.create_task(_make_models(plan, supervisor, terminal))
    tasks.append(models)
    if env.flag("TROUPE_DEMO", default=True):
        tasks.append(asyncio.create_task(_demonstrate(plan, supervisor, terminal, models)))
    try:
        await asyncio.gather(*tasks)
        await asyncio.Event().wait()
    finally:
        for task in tasks:
            task.cancel()


async def _open_doors(plan: Plan, supervisor: Supervisor, terminal: Terminal) -> None:
    """Prepare the database, then print the login link."""
    login = json.loads(await supervisor.run(plan.prepare()))["login"]
    plan.mark_prepared()
    await supervisor.wait_ready(*CORE)
    terminal.say(f"\nTroupe is up after {terminal.since_start():.1f} s: {plan.public_url}", style="bold")
    terminal.say(f"Log in once with:  {login}", style="bold cyan", soft_wrap=True)
    terminal.say("Press Ctrl-C to stop.\n")


async def _make_models(plan: Plan, supervisor: Supervisor, terminal: Terminal) -> None:
    """Create the base model and its metrics, so that no run waits for them; /readyz reports it in the meantime.

    A failure does not stop the stack: a run creates the model if it is missing.
    """
    if not env.flag("TROUPE_BASE_MODEL", default=True):
        return
    mark = plan.home.root / MODEL_IN_WORK
    mark.touch()
    try:
        await supervisor.run(plan.base_model())
    except StackError as error:
        terminal.error(f"The base model is missing; the first run creates it: {error}")
    finally:
        mark.unlink(missing_ok=True)


async def _demonstrate(
    plan: Plan, supervisor: Supervisor, terminal: Terminal, models: "asyncio.Task[None]"
) -> None:
    """Launch the demonstration once. A failure does not stop the stack."""
    try:
        await asyncio.wait([models])
        if plan.ray:
            await supervisor.wait_ready("ray")
        answer = json.loads(await supervisor.run(plan.demo()))
    except StackError as error:
        terminal.error(f"The demonstration did not start: {error}")
        return
    if answer["new"]:
        terminal.say(
            f"The demonstration is running:  {plan.public_url}/runs/{answer['run']}/", style="bold cyan"
        )
    else:
        terminal.say(f"The demonstration of an earlier start:  {plan.public_url}/runs/{answer['run']}/")


async def _until_first_failure(work: Coroutine[Any, Any, None], asked: asyncio.Event) -> None:
    """Work until shutdown is requested; raises the first failure."""
    task, end = asyncio.create_task(work), asyncio.create_task(asked.wait())
    await asyncio.wait([task, end], return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if task.done():
        task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _stop(supervisor: Supervisor, asked: asyncio.Event) -> None:
    """End all children in order; a second request kills them immediately."""
    stopping = asyncio.create_task(supervisor.stop(*GROUPS))
    impatient = asyncio.create_task(_asked_again(asked))
    await asyncio.wait([stopping, impatient], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await asyncio.to_thread(end_processes, psutil.Process().children(recursive=True), 0.0)
    impatient.cancel()
    await stopping
    await asyncio.to_thread(end_processes, psutil.Process().children(recursive=True), 2.0)


async def _asked_again(asked: asyncio.Event) -> None:
    """Wait for a second request. One Ctrl-C may arrive twice (terminal and wrapper): signals within a second count as one."""
    await asyncio.sleep(1.0)
    asked.clear()
    await asked.wait()


def _asked_to_end() -> asyncio.Event:
    """Return an event set by Ctrl-C, SIGTERM and a closed terminal."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    return asked


async def _reap(supervisor: Supervisor) -> None:
    """Reap adopted orphans that have ended; a process seen dead twice has no other parent that reaps it."""
    dead: set[int] = set()
    while True:
        await asyncio.sleep(REAP_EVERY)
        ours = {life.process.pid for life in supervisor.lives.values()}
        now = {child.pid for child in psutil.Process().children() if _is_zombie(child)} - ours
        for pid in now & dead:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        dead = now


def _is_zombie(child: psutil.Process) -> bool:
    try:
        return bool(child.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
