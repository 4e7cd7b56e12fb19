"""Episodes of a run, played by a program outside of it: any agent framework in an environment of its own.

async def play(episode):
    client = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key)
    answer = await client.chat.completions.create(model=episode.roles[0], messages=episode.data["messages"])
    return score(answer, episode.data)

troupe.play_episodes("4f2k9x1m", play)
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError, is_infrastructure
from troupe_client.server_api import ServerFailure, find_server, home, run_path, trusted

log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
_AWAY_SECONDS = 30.0
"""A gateway that does not answer for so long has ended with its run."""
_CLOSE_TRIES = 4
_ERRORS = 100
"""Different errors that are counted."""
_ENDED = ("finished", "stopped", "failed")


@dataclass(frozen=True)
class OpenEpisode:
    """An episode to play."""

    id: str
    base_url: str
    """The base URL for clients of OpenAI's API."""
    api_key: str = field(repr=False)
    """Valid for this episode, until it is closed."""
    roles: list[str]
    """Names for `model`: the roles of the team."""
    data: dict[str, Any]
    """The task: id, number, split, title, messages, observations, and the fields of a data set's line."""
    url: str = field(default="", repr=False)
    """The episode's own address, which contains its key: GET returns all calls so far, with their token ids."""


@dataclass
class Played:
    """What a program has played."""

    episodes: int = 0
    """Episodes with a result, the failed ones included."""
    failed: int = 0
    """Episodes that the run counts as failed; with workflow.failure_reward, mistakes of the policy are not among them."""
    error: str = ""
    """The latest error of an episode."""
    errors: list[tuple[str, int]] = field(default_factory=list)
    """Errors with their numbers of episodes, the commonest first."""


def play_episodes(
    run: str | Path,
    play: Callable[[OpenEpisode], Any],
    concurrency: int = 16,
    *,
    patience: float = 300.0,
    progress: bool = True,
) -> Played:
    """Play the episodes of a run until it ends, `concurrency` at a time, and report their rewards.

    `run`: its id, if this program sees TROUPE_HOME; otherwise the path of a copy of its gateway.json. `play` is a coroutine
    function, or a function that is called in a thread. It returns a number (the reward of every role), a dict (rewards by
    role or by the id of a call), or None if it has posted rewards itself. If it raises, or returns something else, the
    episode fails.

    Raises TroupeError if the run has no gateway within `patience` seconds, if it ends before it has one, and if the gateway
    refuses its token.
    """
    player = _Player(_gateway_file(run), play, concurrency, progress=progress)
    asyncio.run(player.run(patience))
    return player.played


class _Player:
    def __init__(
        self, file: Path, play: Callable[[OpenEpisode], Any], concurrency: int, *, progress: bool
    ) -> None:
        import httpx
        from rich.progress import Progress, TextColumn, TimeElapsedColumn

        self.played = Played()
        self._file, self._play, self._concurrency = file, play, concurrency
        self._http = httpx.AsyncClient(timeout=60.0, trust_env=False, verify=trusted("https:"))
        self._taking = asyncio.Lock()
        self._patience_ends = 0.0
        self._answered = self._ended = False
        self._threads = ThreadPoolExecutor(concurrency)
        self._progress = Progress(TextColumn("{task.description}"), TimeElapsedColumn(), disable=not progress)
        self._line = self._progress.add_task("no episode yet", total=None)
        self._errors: Counter[str] = Counter()

    async def run(self, patience: float) -> None:
        """Play until the run ends. Raises TroupeError."""
        began = time.time()
        self._patience_ends = time.monotonic() + patience
        while self._gateway() is None:
            if ended := await asyncio.to_thread(_ending, self._file.parent, began):
                raise TroupeError(
                    f"the run of {self._file.parent} has ended before it had a gateway: {ended}",
                    remedy="read its log, and start it again",
                )
            if time.monotonic() > self._patience_ends:
                raise TroupeError(
                    f"there is no {self._file}",
                    remedy="start the run with workflow.type=agent and an empty workflow.path; on another machine name a copy of its file",
                )
            await asyncio.sleep(_POLL_SECONDS)
        try:
            with self._progress:
                async with self._http, asyncio.TaskGroup() as group:
                    for _ in range(self._concurrency):
                        group.create_task(self._work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        while episode := await self._take():
            await self._play_one(episode)

    async def _take(self) -> OpenEpisode | None:
        """The next episode; None once the run has ended. One task asks at a time."""
        import httpx

        async with self._taking:
            heard = time.monotonic()
            while not self._ended and (gateway := self._gateway()):
                url, token = gateway["url"], gateway["token"]
                try:
                    answer = await self._http.post(f"{url}/episodes", headers=_bearer(token))
                except httpx.TransportError as error:
                    self._ended = self._is_gone(heard, url, f"{type(error).__name__} {error}")
                else:
                    if answer.status_code == 201:
                        self._answered, taken = True, answer.json()
                        id, key, address = taken["id"], taken["key"], f"{url}/episodes/{taken['key']}"
                        return OpenEpisode(id, f"{url}/v1", key, taken["roles"], taken["data"], address)
                    if answer.status_code == 401:
                        raise TroupeError(_message(answer), remedy=f"copy {self._file.name} of the run again")
                    if answer.status_code == 409:  # no episode waits
                        heard, self._answered = time.monotonic(), True
                    else:  # of a proxy whose gateway has ended
                        self._ended = self._is_gone(heard, url, f"HTTP {answer.status_code}")
                await asyncio.sleep(_POLL_SECONDS)
        return None

    def _is_gone(self, heard: float, url: str, error: str) -> bool:
        """Whether a gateway that was last heard at that time has ended. Raises TroupeError if it has never answered."""
        now = time.monotonic()
        if self._answered:
            if now - heard < _AWAY_SECONDS:
                return False
            log.warning(
                "the gateway has not answered for %g seconds (%s); its run has ended", _AWAY_SECONDS, error
            )
        elif now > self._patience_ends or "CERTIFICATE_VERIFY_FAILED" in error:
            raise TroupeError(
                f"the gateway at {url} does not answer: {error}",
                remedy=f"correct `url` in {self._file}; SSL_CERT_FILE names the certificate of an authority of your own",
            )
        return self._answered

    async def _play_one(self, episode: OpenEpisode) -> None:
        """Play an episode and close it, whatever happens."""
        task = asyncio.current_task()
        try:
            report, error = _report(await self._result(episode)), ""
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit and others of a framework end no other episode
            error = _error_text(raised).replace(episode.api_key, "<key>")
            interrupted = isinstance(raised, asyncio.CancelledError)
            outside = isinstance(raised, Exception) and is_infrastructure(raised)
            report = {"error": error, "infrastructure": interrupted or outside}
        refused, outcome = await self._close(episode, report)
        if task and task.cancelling():
            raise asyncio.CancelledError
        if refused and not error:
            await self._close(episode, {"error": refused, "infrastructure": True})
        error = error or refused or str(outcome.get("error") or "")
        self._count(episode, error, failed=bool(outcome.get("failed", error)))

    async def _result(self, episode: OpenEpisode) -> Any:
        if inspect.iscoroutinefunction(self._play):
            return await self._play(episode)
        result, error = await asyncio.get_running_loop().run_in_executor(self._threads, self._called, episode)
        if error is not None:
            raise error
        return await result if inspect.isawaitable(result) else result

    def _called(self, episode: OpenEpisode) -> tuple[Any, BaseException | None]:
        """What `play` returns, and what it raises: a future cannot hold every exception."""
        try:
            return self._play(episode), None
        except StopIteration as error:
            return None, RuntimeError(f"StopIteration: {error}")
        except BaseException as error:
            return None, error

    async def _close(self, episode: OpenEpisode, report: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Close an episode. Returns why the gateway refused the report, if it did, and the outcome that the run counts."""
        import httpx

        address = episode.base_url.removesuffix("/v1") + "/close"
        error = ""
        for wait in range(_CLOSE_TRIES):
            try:
                answer = await self._http.post(address, json=report, headers=_bearer(episode.api_key))
            except httpx.TransportError as failure:
                error = f"the gateway does not answer ({type(failure).__name__})"
            else:
                error = "" if answer.is_success else _message(answer)
                if answer.status_code < 500:
                    return error, {} if error else _outcome(answer)
            await asyncio.sleep(_POLL_SECONDS * 2**wait)
        return error, {}

    def _count(self, episode: OpenEpisode, error: str, *, failed: bool) -> None:
        self.played.episodes += 1
        self.played.failed += failed
        self.played.error = error or self.played.error
        if error and error not in self._errors:
            log.warning("episode %s %s: %s", episode.id, "failed" if failed else "ended with an error", error)
        if error and (error in self._errors or len(self._errors) < _ERRORS):
            self._errors[error] += 1
            self.played.errors = self._errors.most_common()
        text = f"{self.played.episodes} episodes played, {self.played.failed} of them failed"
        self._progress.update(self._line, description=text)

    def _gateway(self) -> dict[str, str] | None:
        """Address and token of the run's gateway; None while it has none."""
        try:
            return json.loads(self._file.read_text())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise TroupeError(
                f"{self._file} is not a gateway.json", remedy="copy it from the run's folder again"
            ) from error


def _gateway_file(run: str | Path) -> Path:
    path = home() / "runs" / run if isinstance(run, str) and run.isalnum() else Path(run)
    return path if path.suffix == ".json" else path / "gateway.json"


def _ending(folder: Path, since: float) -> str:
    """State and reason of a run that has ended: by its server, or without one by a report after that time. Otherwise ""."""
    try:
        run = find_server().call(run_path(folder.name))
        return f"{run['state']} {run['reason']}".strip() if run["state"] in _ENDED else ""
    except ServerFailure:
        return next(_endings(folder, since), "")


def _endings(folder: Path, since: float) -> Iterator[str]:
    for spool in folder.glob("attempt-*/spool/*.jsonl"):
        for line in spool.read_text(errors="replace").split("\n"):
            if '"type":"status"' in line and line.endswith("}"):
                event = json.loads(line)
                final = event["state"] in _ENDED and not event.get("facts", {}).get("retry")
                if final and event["time"] >= since:
                    yield f"{event['state']} {event.get('message', '')}".strip()


def _report(result: Any) -> dict[str, Any]:
    """What `play` returned as the gateway's report. Raises TypeError, ValueError, OverflowError."""
    if result is None:
        return {}
    if isinstance(result, Mapping):
        return {"rewards": {_encodable(str(name)): _number(value) for name, value in result.items()}}
    return {"reward": _number(result)}


def _number(value: Any) -> float:
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"play returned {number}; a reward must be a finite number")
    return number


def _error_text(error: BaseException) -> str:
    """Type and text of an exception, in UTF-8, whatever its class does."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type(error).__name__}: its text cannot be read"
    return _encodable(text)


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _outcome(answer: Any) -> dict[str, Any]:
    """What the gateway says of a closed episode; nothing if a proxy has answered something else."""
    try:
        outcome = answer.json()
    except ValueError:
        return {}
    return outcome if isinstance(outcome, dict) else {}


def _message(answer: Any) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered HTTP {answer.status_code}"
