"""Supervises child processes: starts them in order, probes them, restarts them when they die, ends them together.

What happens to them is printed as plain lines, with colours and a spinner on a terminal.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from webapp.stack.home import StackError
from webapp.stack.processes import Account, become, dies_with_parent, end_processes, signal_group, tagged


class Terminal:
    """Prints which children start, are ready (with the duration), or died.

    After its output (a pipe or a terminal) is closed, it prints nothing, so that `up` continues and ends its children in order.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._began = time.monotonic()
        self._waiting: dict[str, float] = {}
        self._status: Status | None = None
        self._lock = threading.Lock()

    def starting(self, name: str) -> None:
        """Report a started child; the spinner shows its name until it is ready."""
        with self._lock:
            self._waiting[name] = time.monotonic()
            self._refresh()

    def ready(self, name: str, note: str = "") -> None:
        """It answers."""
        with self._lock:
            took = time.monotonic() - self._waiting.pop(name, time.monotonic())
            self._refresh()
        self._print(f"  [green]ready[/]  {name:<14} {took:5.1f} s  [dim]{escape(note)}[/]".rstrip())

    def trouble(self, name: str, what: str) -> None:
        """Report that a child died or does not start."""
        with self._lock:
            self._waiting.pop(name, None)
            self._refresh()
        self._print(f"  [yellow]again[/]  {name:<14} {escape(what)}")

    def say(self, text: str, **style: Any) -> None:
        """Print a separate line, without markup."""
        self._print(escape(text), **style)

    def error(self, text: str) -> None:
        """Print the error that stopped the stack."""
        self._print(f"[red]error[/]  {escape(text)}")

    def since_start(self) -> float:
        """Seconds since the start of `up`."""
        return time.monotonic() - self._began

    def close(self) -> None:
        """Remove the spinner."""
        with self._lock:
            self._waiting.clear()
            self._refresh()

    def _print(self, markup: str, **style: Any) -> None:
        with self._unless_closed():
            self.console.print(markup, **style)

    @contextmanager
    def _unless_closed(self) -> Iterator[None]:
        """Stop printing when the output is closed. Rich raises SystemExit for a closed pipe."""
        try:
            yield
        except (OSError, SystemExit):
            self.console.quiet = True

    def _refresh(self) -> None:
        if self.console.is_terminal and not self.console.quiet:
            with self._unless_closed():
                self._spin()

    def _spin(self) -> None:
        if self._waiting and self._status is None:
            self._status = self.console.status("")
            self._status.start()
        if self._status is None:
            return
        if self._waiting:
            self._status.update(f"starting {', '.join(self._waiting)}")
        else:
            self._status.stop()
            self._status = None


POLL = 0.05
WATCH = 5.0
"""Seconds between probes of a running child."""
LOG_LIMIT = 20_000_000
"""Size in bytes at which a log is rotated."""


@dataclass(frozen=True)
class Service:
    """A child process that runs as long as the stack."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    answers: Callable[[], bool]
    """Quick probe, called in a thread."""
    after: tuple[str, ...] = ()
    """Services and steps that must have been ready before it starts."""
    waits_for: tuple[str, ...] = ()
    """Services and steps that the process, once started, waits for itself: it imports its modules in the meantime."""
    account: Account | None = None
    stop_signal: int = signal.SIGTERM
    grace: float = 5.0
    """Seconds between SIGTERM and SIGKILL."""
    unanswered_limit: float = 60.0
    """Seconds without a response, during startup or later, before it is restarted."""
    sockets: tuple[int, ...] = ()
    """File descriptors inherited by the child."""
    owns_tree: bool = False
    """Whether its child processes must end with it."""
    folder: Path = Path("/")
    before: Callable[[], None] | None = None
    """Called in a thread before every start, after the previous start has ended completely."""


@dataclass(frozen=True)
class SetupStep:
    """A child process that performs one task and ends; its standard output is the result."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    after: tuple[str, ...] = ()
    niceness: int = 0


@dataclass
class _Life:
    """One start of a service."""

    process: asyncio.subprocess.Process
    log_start: int = 0
    """Size of the log in bytes before this start."""
    family: dict[int, psutil.Process] = field(default_factory=dict)


class Supervisor:
    """Runs services and steps on the main thread's event loop (a child dies with the thread that started it)."""

    def __init__(self, stack_id: str, logs: Path, terminal: Terminal, *, first_delay: float = 0.5) -> None:
        self.stack_id = stack_id
        self.logs = logs
        self.terminal = terminal
        self.first_delay = first_delay
        self.lives: dict[str, _Life] = {}
        self.restarts: dict[str, int] = {}
        self._services: dict[str, Service] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}

    def keep(self, service: Service) -> asyncio.Task[None]:
        """Start a service and keep it running. The task ends only with StackError: the first start failed."""
        self._services[service.name] = service
        task = asyncio.create_task(self._keep(service))
        self._keepers[service.name] = task
        return task

    async def run(self, step: SetupStep) -> str:
        """Run a step until it ends. Returns its standard output; raises StackError if it fails."""
        await self.wait_ready(*step.after)
        self.terminal.starting(step.name)
        life = await self._spawn(step, asyncio.subprocess.PIPE, preexec_fn=_nice(step.niceness))
        self.lives[step.name] = life
        output, _ = await life.process.communicate()
        self.lives.pop(step.name, None)
        if life.process.returncode:
            last = self._last_lines(step.name, life.log_start)
            raise StackError(f"{step.name} failed (code {life.process.returncode}): {last}")
        self.terminal.ready(step.name)
        self._event(step.name).set()
        return output.decode()

    async def wait_ready(self, *names: str) -> None:
        """Wait until each of them has been ready once."""
        for name in names:
            await self._event(name).wait()

    async def stop(self, *groups: Sequence[str]) -> None:
        """End everything: group by group, concurrently within one; then any process that still carries our id."""
        for task in self._keepers.values():
            task.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        named = [name for group in groups for name in group]
        rest = [name for name in self.lives if name not in named]
        for group in [rest, *groups]:
            await asyncio.gather(*(self._end(name) for name in group if name in self.lives))
        await asyncio.to_thread(lambda: end_processes(tagged("TROUPE_STACK_ID", self.stack_id), 2.0))

    async def _keep(self, service: Service) -> None:
        await self.wait_ready(*service.after)
        delay, failures = self.first_delay, 0
        while True:
            began = time.monotonic()
            self.lives[service.name] = life = await self._start(service)
            await self.wait_ready(*service.waits_for)
            came_up = await self._comes_up(service, life)
            if came_up:
                failures = 0
                self.terminal.ready(service.name)
                self._event(service.name).set()
                why = await self._watch(service, life)
            else:
                failures += 1
                why = f"did not come up ({_ending(life)}): {self._last_lines(service.name, life.log_start)}"
            await self._end(service.name)
            if failures >= 3 and not self._event(service.name).is_set():
                raise StackError(f"{service.name} {why}\nIts log: {self.logs / f'{service.name}.log'}")
            delay = self.first_delay if time.monotonic() - began > 60 else min(delay * 2, 30.0)
            self.restarts[service.name] = self.restarts.get(service.name, 0) + 1
            self.terminal.trouble(service.name, f"{why}; starting it again in {delay:.0f} s")
            await asyncio.sleep(delay)

    async def _start(self, service: Service) -> _Life:
        self.terminal.starting(service.name)
        if service.before is not None:
            await asyncio.to_thread(service.before)
        return await self._spawn(
            service,
            cwd=service.folder,
            preexec_fn=dies_with_parent(service.stop_signal),
            pass_fds=service.sockets,
            **become(service.account),
        )

    async def _spawn(self, part: Service | SetupStep, stdout: int | None = None, **options: Any) -> _Life:
        """Start a process whose output, or only its errors, goes to its log."""
        log = self._log(part.name)
        try:
            log_start = os.fstat(log).st_size
            process = await asyncio.create_subprocess_exec(
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
                env=self._marked(part.environment, part.name),
                process_group=0,
                **options,
            )
        finally:
            os.close(log)
        return _Life(process, log_start)

    async def _comes_up(self, service: Service, life: _Life) -> bool:
        deadline = time.monotonic() + service.unanswered_limit
        while life.process.returncode is None and time.monotonic() < deadline:
            if await asyncio.to_thread(service.answers) and life.process.returncode is None:
                return True
            await asyncio.sleep(POLL)
        return False

    async def _watch(self, service: Service, life: _Life) -> str:
        """Wait until the service dies or stops responding. Returns the reason."""
        answered = time.monotonic()
        while True:
            if service.owns_tree:
                await asyncio.to_thread(_note_family, life)
            try:
                code = await asyncio.wait_for(life.process.wait(), WATCH)
            except TimeoutError:
                await asyncio.to_thread(_shorten, self.logs / f"{service.name}.log")
                if await asyncio.to_thread(service.answers):
                    answered = time.monotonic()
                elif time.monotonic() - answered > service.unanswered_limit:
                    return f"has not answered for {service.unanswered_limit:.0f} s"
                continue
            return _how(code)

    async def _end(self, name: str) -> None:
        """End a child and, depending on the service, all its child processes."""
        life = self.lives.pop(name, None)
        service = self._services.get(name)
        if life is None:
            return
        if service and service.owns_tree:
            await asyncio.to_thread(_note_family, life)
        if life.process.returncode is None:
            signal_group(life.process.pid, service.stop_signal if service else signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(life.process.wait(), service.grace if service else 2.0)
        signal_group(life.process.pid, signal.SIGKILL)
        await life.process.wait()
        if service and service.owns_tree:
            left = [*life.family.values(), *tagged("TROUPE_STACK_PART", f"{self.stack_id}-{name}")]
            await asyncio.to_thread(end_processes, left, 2.0)

    def _event(self, name: str) -> asyncio.Event:
        return self._ready.setdefault(name, asyncio.Event())

    def _marked(self, environment: Mapping[str, str], name: str) -> dict[str, str]:
        return {
            **environment,
            "TROUPE_STACK_ID": self.stack_id,
            "TROUPE_STACK_PART": f"{self.stack_id}-{name}",
        }

    def _log(self, name: str) -> int:
        path = self.logs / f"{name}.log"
        _shorten(path)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _last_lines(self, name: str, start: int, count: int = 5) -> str:
        """Return the last lines of a log after its first `start` bytes."""
        with (self.logs / f"{name}.log").open("rb") as log:
            log.seek(start if start <= log.seek(0, os.SEEK_END) else 0)  # the log was rotated in the meantime
            lines = log.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-count:]) or "it said nothing"


def _ending(life: _Life) -> str:
    """Describe a child that did not come up: it has ended, or it runs and does not respond."""
    code = life.process.returncode
    return "it does not answer" if code is None else f"it {_how(code)}"


def _how(code: int) -> str:
    """Describe an exit code."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _shorten(log: Path) -> None:
    """Rotate a log that grew too large. The file is truncated in place, because its child has it open for appending."""
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        os.truncate(log, 0)


def _note_family(life: _Life) -> None:
    """Record the child's descendants: after its death they cannot be found."""
    try:
        family = psutil.Process(life.process.pid).children(recursive=True)
    except psutil.Error:
        return
    life.family = {pid: known for pid, known in life.family.items() if known.is_running()}
    life.family |= {child.pid: child for child in family}


def _nice(niceness: int) -> Callable[[], Any]:
    bound = dies_with_parent()

    def prepare() -> None:
        bound()
        os.nice(niceness)

    return prepare
