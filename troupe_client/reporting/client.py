"""Report from any training program: `troupe.init`, `log`, `log_episode`, `finish`.

A call writes to disk, takes microseconds and never waits for the network; a separate thread delivers the events.
Imports neither Ray, torch nor Django.
"""

import logging
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypedDict, Unpack

from training_core.errors import TroupeError
from troupe_client.documents.descriptions import LARGEST_STEP
from troupe_client.reporting.after_end import AfterEnd
from troupe_client.reporting.artifacts import (
    Rows,
    cache_folder,
    files_of,
    table_write,
    version_body,
    version_fetch,
    version_put,
)
from troupe_client.reporting.config_values import config_json
from troupe_client.reporting.episodes import Message, episode_fields, turns_of
from troupe_client.reporting.media import Media, Table
from troupe_client.reporting.notebook import LiveCharts, notebook_show
from troupe_client.reporting.opening import (
    ALPHABET,
    OpenedRun,
    begin,
    data_folder,
    new_id,
    request_run,
    within_limits,
)
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server, ServerAway, run_path
from workers.provenance.collecting import program_provenance
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder
from workers.telemetry.delivery import Undelivered

logger = logging.getLogger("troupe")
Mode = Literal["online", "offline", "disabled"]
MODES = ("online", "offline", "disabled")
PATIENCE = 1.5
"""Seconds that the end of a run waits for a server that does not answer."""
STOP = ("stop", "pause")
"""Commands of people; others, such as that of a newer attempt, do not end a program."""


def whole_step(step: Any) -> int:
    """Return a step as an integer of 64 bits. Raises ValueError for anything else."""
    try:
        whole = int(step)
    except (OverflowError, TypeError, ValueError):
        whole = LARGEST_STEP + 1
    if abs(whole) > LARGEST_STEP:
        raise ValueError(
            f"the step {step!r:.80} is not a whole number below 2^63; count steps, or omit `step`"
        )
    return whole


class Progress:
    """Counts completed steps, from 0 or from 1 as the program does. `total`: number of steps of the run, 0 if unknown.

    `completed` and `next_step` are those of a resumed run: they are equal if its steps count from 0.
    """

    def __init__(self, total: int = 0, completed: int = 0, next_step: int = 0) -> None:
        self.completed = completed
        self._total = total
        self._first = None if next_step == 0 else int(completed < next_step)
        self._last = -1
        self._logged = False

    def note(self, step: int, *, committed: bool) -> int:
        """Return the number of completed steps after values of `step`; a step is complete when it is committed.

        Late values of an earlier step do not reduce it. Values before the first of N steps, such as an evaluation at step 0, do
        not make it N + 1.
        """
        if self._first is None:
            self._first = int(step > 0)
        done = step - self._first + committed
        if self._total and step == self._total:
            done = min(done, self._total)
        before = self.completed if self._logged else 0
        self.completed = min(max(done, before, 0), LARGEST_STEP)
        self._last = max(step, self._last)
        self._logged = True
        return self.completed

    def end(self) -> int:
        """Return the number of completed steps of a program that ends as planned.

        A program that logs every tenth step counts from 0 if its last step of N is N - 1.
        """
        if self._total and self._last == self._total - 1:
            self.completed = self._total
        return self.completed


class ClientRun:
    """A run of this process. Its methods may be called from any thread."""

    def __init__(
        self,
        run_id: str,
        reporter: Reporter | None,
        folder: Path,
        opened: OpenedRun | None = None,
        name: str = "",
        steps: int = 0,
        request: dict[str, Any] | None = None,
    ) -> None:
        self.id = run_id
        self.name = (opened and opened.name) or name or run_id
        self.state = "running"
        self.url = opened.server.page(opened.page or f"/runs/{run_id}/") if opened else ""
        """Address of the run's page; empty if offline or disabled."""
        self.folder = folder
        self.step = opened.step if opened else 0
        """Step of the next `log` without a step; of a resumed run, the one after its last."""
        self._reporter = reporter
        self._server = opened.server if opened else None
        self._request = request
        self._scalars = Scalars()
        known = (opened.iteration, opened.step) if opened else (0, 0)
        self._progress = Progress(steps or (opened.steps if opened else 0), *known)
        self._after_end = _after_end(reporter.spool, folder, opened.server) if opened and reporter else None
        self._live: LiveCharts | None = None
        self._episodes = 0
        self._pid = os.getpid()
        self._ended = False
        self._lock = Lock()
        """Of the step and the progress."""

    def __str__(self) -> str:
        """Return name, state and address."""
        return f"{self.name} ({self.state}): {self.url or self.folder}"

    def _repr_html_(self) -> str:
        """Show a notebook the link to the run's page."""
        if not self.url:
            return f"Troupe run {self.id}, stored in {escape(str(self.folder))}"
        address = escape(self.url, quote=True)
        return f'Troupe run <a href="{address}" target="_blank" rel="noopener">{self.id}</a>'

    def log(self, values: Mapping[str, Any], step: int | None = None, *, commit: bool = True) -> None:
        """Report scalars and media of one step; mappings may be nested. Without `step` the step counts up; `commit=False` keeps it.

        Other values are left out with a warning. Raises RuntimeError after `finish` or in a forked child, and ValueError for a step
        that is not a number of 64 bits.
        """
        reporter = self._open()
        media: dict[str, list[Media]] = {}
        flat = self._scalars.flat(values, media)
        with self._lock:
            at = self.step if step is None else whole_step(step)
            self.step = at + commit
            completed = self._progress.note(at, committed=commit)
        if reporter:
            if flat or not media:
                reporter.metrics(at, flat)
            for name, items in media.items():
                reporter.media(at, name, [item.document() for item in items])
            reporter.iteration = completed
        if self._live:
            self._live.note(at, flat)

    def live(self, *names: str) -> None:
        """Show charts of these metrics in the output of a notebook's cell, and update them while `log` is called.

        Without names: of the first six that are logged from now on. Raises TroupeError outside a notebook.
        """
        self._open()
        show = notebook_show(self.url or "the page of the run")
        self._live = LiveCharts(self._repr_html_(), [*Scalars().flat(dict.fromkeys(names, 0.0))], show)

    def log_episode(
        self,
        messages: Sequence[Message] | None = None,
        *,
        turns: Iterable[Mapping[str, Any]] | None = None,
        reward: float = 0.0,
        role: str = "agent",
        policy: str = "",
        step: int | None = None,
        **facts: Any,
    ) -> None:
        """Report a transcript: chat `messages` with one reward, or `turns` (mappings with role, messages, response or
        candidates, reward; see workers.telemetry.events.Turn). `facts` are fields of an episode: success, outcome, task,
        title, kind ("train", "eval", "eval_sampled"), probe, final_board ...

        Raises TypeError or ValueError if the arguments do not describe an episode.
        """
        reporter = self._open()
        if (messages is None) == (turns is None):
            raise TypeError("log_episode needs either `messages` or `turns`")
        if messages is not None:
            turns = turns_of(messages, role, policy or role, float(reward))
        number = self.step if step is None else whole_step(step)
        self._episodes += 1
        name = f"{facts.get('kind') or 'train'}-{number}-{self._producer}-{self._episodes}"
        fields = episode_fields(name, number, turns or (), facts)
        if reporter:
            reporter.episode(fields)

    def alert(
        self, title: str, text: str = "", level: Literal["info", "warning", "error"] = "warning"
    ) -> None:
        """Write a line to the run's log."""
        if reporter := self._open():
            reporter.log(level, "alert", f"{title}: {text}" if text else title)

    def configure(self, config: Any) -> None:
        """Change fields of the config, or add them. Waits for the server.

        Raises TroupeError if it refuses them, and in a program with a role, which has no config.
        """
        self._open()
        if self._request is not None:
            if self._request["role"]:
                raise TroupeError("a program with a role has no config; call configure in the main program")
            self._request["config"] |= config_json(config)
            self._request = within_limits(self._request)
            request_run(self.folder, self._request, online=self._server is not None)

    def should_stop(self) -> bool:
        """Return whether a person pressed Stop on the run's page. Check it once per step and end the loop."""
        reporter = self._open()
        return reporter is not None and reporter.command in STOP

    def log_artifact(
        self,
        source: str | Path | Rows | Table,
        name: str,
        *,
        type: str = "",
        aliases: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Store a file, a folder or a table (a `Table`, or a list of mappings) as a version of the artifact `name`, made by this run.

        Waits for the upload. Equal contents are the same version. Returns the version. Raises TroupeError without a server.
        """
        server, run = self._served()
        if isinstance(source, str | Path):
            files, kind = files_of(Path(source)), "file"
        else:
            rows = source.mappings() if isinstance(source, Table) else source
            files, kind = table_write(rows, self.folder / "artifacts" / name), "table"
        body = version_body(name, files, type or kind, aliases, metadata or {})
        return version_put(server, run_path(self.id, "artifacts/"), run["project"], body, files)

    def use_artifact(self, reference: str) -> Path:
        """Return a local folder with the files of NAME, NAME:v3 or NAME:alias, and record that this run uses the version.

        Files are checked by their SHA-256 and cached. Raises TroupeError without a server.
        """
        server, _ = self._served()
        version = server.call(run_path(self.id, "artifacts/use/"), {"artifact": reference})
        return version_fetch(server, version, cache_folder())

    def _served(self) -> tuple[Server, dict[str, Any]]:
        """The server, and the run there."""
        self._open()
        if self._server is None:
            raise TroupeError('artifacts need the server; start the run with mode="online"')
        return self._server, self._server.call(run_path(self.id))

    def finish(
        self,
        status: Literal["finished", "stopped", "failed"] = "finished",
        message: str = "",
        timeout: float = 30.0,
    ) -> bool:
        """Report the end and deliver pending events for at most `timeout` seconds while the server answers.

        What is left is delivered by another process, for a minute, or by `troupe sync`. A second call does nothing. Returns whether
        the server has stored all events; offline, whether the disk has. False if some are lost on a full disk.
        """
        if self._ended or self._pid != os.getpid():
            return True
        self._ended, self.state = True, status
        if self._live:
            self._live.draw()
        if self._reporter is None:
            return True
        if status == "finished" and self._reporter.command in STOP:
            self.state = "stopped"
        done = self._progress.end() if self.state == "finished" else self._progress.completed
        self._reporter.status(self.state, done, message)
        complete = self._reporter.close(timeout, PATIENCE)
        delivered = self._reporter.has_stored(self._reporter.seq)
        if self._after_end:
            self._after_end.end(delivered=delivered, rest=self._reporter.kept.lines)
        self._warn_of_loss(self._reporter, delivered=delivered)
        if not delivered or not self.url:
            logger.warning(
                "Run %s is stored in %s; deliver what the server does not have with: TROUPE_HOME=%s troupe sync %s",
                self.id,
                self.folder,
                self.folder.parent.parent,
                self.id,
            )
        return complete

    def _warn_of_loss(self, reporter: Reporter, *, delivered: bool) -> None:
        if reporter.lost:
            text = "%d events of run %s are lost: the disk of %s was full, and so was the memory for them"
            logger.error(text, reporter.lost, self.id, self.folder)
        if waiting := len(reporter.kept.lines) if not delivered or not self.url else 0:
            text = "%d events of run %s are not on the full disk of %s%s"
            sent = (
                "; another process tries to deliver them for a minute" if self._after_end else " and are lost"
            )
            logger.error(text, waiting, self.id, self.folder, sent)

    def __enter__(self) -> "ClientRun":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self.finish("failed" if kind else "finished", f"{kind.__name__}: {error}" if kind else "")

    @property
    def _producer(self) -> str:
        return self._reporter.producer[:6] if self._reporter else "none"

    def _open(self) -> Reporter | None:
        if self._ended:
            raise RuntimeError(f"run {self.id} has ended; start another one with troupe.init")
        if self._pid != os.getpid():
            raise RuntimeError(
                "this run belongs to another process; call troupe.init in the process that logs"
            )
        return self._reporter


class RunDescription(TypedDict, total=False):
    """Facts about a run that its page shows."""

    group: str
    """Added as the tag `group:NAME`."""
    tags: Sequence[str]
    notes: str
    """Markdown."""
    config: Any
    """A mapping, a dataclass, a namespace or a settings object, with any values."""
    team: Mapping[str, str]
    """Policy by role; each gets its own colour and curves."""
    algorithm: str
    environment: str
    steps: int
    """Total number of steps, for the progress; 0: unknown."""
    headline: Sequence[str]
    """Metrics that its overview shows first; without it, they are chosen by their names."""


def run_begin(
    project: str = "",
    name: str = "",
    *,
    id: str = "",
    resume: Literal["never", "allow", "must"] = "never",
    role: str = "",
    mode: Mode | None = None,
    dir: str = "",
    **described: Unpack[RunDescription],
) -> ClientRun:
    """Start a run in `project` (a slug; default: your first project).

    `id` is generated; the id of an existing run needs resume="allow" or "must", which continue the count of its steps, or a
    `role`: the part of another program, such as "eval", in the run. The run's state follows the program without a role. `mode`
    is "online", "offline" (`troupe sync ID` delivers later) or "disabled" (nothing is written). `dir` is the folder of events.
    Arguments default to environment variables (docs/use/client.md). Raises TroupeError for bad arguments, without a known server,
    and if the server refuses the run. A server that does not answer is not an error.
    """
    if unknown := set(described) - set(RunDescription.__annotations__):
        raise TroupeError(f"init has no argument {', '.join(sorted(unknown))}")
    chosen = mode or os.environ.get("TROUPE_MODE", "").strip() or "online"
    if chosen not in MODES:
        raise TroupeError(
            f"mode must be {' or '.join(MODES)}, not {chosen!r} (argument `mode` or TROUPE_MODE)"
        )
    run_id = id or os.environ.get("TROUPE_RUN_ID", "").strip() or new_id()
    if not 8 <= len(run_id) <= 12 or set(run_id) - set(ALPHABET):
        raise TroupeError(f"the id {run_id!r} must be 8 to 12 characters of {ALPHABET}; omit it for a new id")
    folder = data_folder(dir) / "runs" / run_id
    if chosen == "disabled" or _is_other_rank(role):
        return ClientRun(run_id, None, folder, name=name)
    body: dict[str, Any] = {
        **described,
        "config": config_json(described.get("config")),
        "id": run_id,
        "project": project or os.environ.get("TROUPE_PROJECT", "").strip(),
        "name": name,
        "group": described.get("group") or os.environ.get("TROUPE_RUN_GROUP", "").strip(),
        "headline": [*Scalars().flat(dict.fromkeys(described.get("headline", ()), 0.0))],  # names as logged
        "resume": resume,
        "role": role,
        "provenance": program_provenance(),
        "nonce": secrets.token_hex(8),
    }
    body = within_limits(body)
    opened = request_run(folder, body, online=chosen == "online")
    return _reporting(run_id, folder, body, opened)


def _is_other_rank(role: str) -> bool:
    """Whether this is a process of a distributed training other than rank 0, and has no part of its own."""
    rank = os.environ.get("RANK", "").strip()
    if role or not rank.isdigit() or int(rank) == 0:
        return False
    logger.warning(
        "Rank %s does not report, because rank 0 does; pass a role to init to report from it as well", rank
    )
    return True


def _reporting(run_id: str, folder: Path, body: dict[str, Any], opened: OpenedRun | None) -> ClientRun:
    if opened is None:
        reporter = Reporter(RunFolder(folder), run_id, 1)
    else:
        server = opened.server
        reporter = Reporter(
            RunFolder(folder),
            run_id,
            opened.attempt,
            server.address(f"/api/v1/runs/{run_id}/events/"),
            server.token,
            before=None if opened.page else lambda: _begin_late(server, body),
        )
        if not opened.page:
            logger.warning("%s does not answer; events are stored in %s until it does", server.url, folder)
    completed = opened.iteration if opened else 0
    reporter.status("running", completed, facts={"client": True, "role": body["role"]})
    return ClientRun(run_id, reporter, folder, opened, body["name"], int(body.get("steps") or 0), body)


def _after_end(spool: Path, folder: Path, server: Server) -> AfterEnd | None:
    """Start the process that outlives this one; a machine that starts no further process reports without it."""
    try:
        return AfterEnd(folder, spool, server.url, server.token) if sys.executable else None
    except OSError as error:
        logger.warning(
            "An end without a report will not be noticed at once: no process can be started: %s", error
        )
        return None


def _begin_late(server: Server, body: dict[str, Any]) -> None:
    """Start the run on the server. The delivering thread repeats it until it succeeds."""
    try:
        begin(server, body)
    except ServerAway as error:
        raise Undelivered(str(error)) from error
    except TroupeError as error:
        raise Undelivered(f"the server refuses the run: {error}") from error
