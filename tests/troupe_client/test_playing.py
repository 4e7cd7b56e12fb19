"""Programs that play a run's episodes from outside, against the real gateway."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI, OpenAI

import troupe
from tests.workers.gateway.playing import Scripted, make_gateway, make_session
from training_core.errors import TroupeError
from training_core.llm.agents.session import Session, write_episode
from troupe_client import playing
from workers.gateway.gateway import Gateway
from workers.telemetry.metrics import rewards_by_role

ASK: Any = [{"role": "user", "content": "What is the weather?"}]
ROLES = ("solver", "critic")


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = make_gateway(failure_reward=-1.0)
    yield made
    made.close()


def play(
    gateway: Gateway, folder: Path, count: int, agent: Callable[[troupe.OpenEpisode], Any], **options: Any
) -> tuple[troupe.Played, list[Session]]:
    """Play `count` episodes of a run that ends when all are closed."""
    sessions = [make_session(Scripted("seven", "four"), ROLES) for _ in range(count)]
    file = folder / "gateway.json"
    file.write_text(json.dumps({"url": gateway.url, "token": gateway.token}))
    gateway.offer(sessions)

    def end() -> None:
        for session in sessions:
            session.done.result(timeout=60)
        gateway.withdraw(sessions)
        file.unlink()

    ending = threading.Thread(target=end)
    ending.start()
    played = troupe.play_episodes(folder, agent, progress=False, **options)
    ending.join()
    return played, sessions


def test_episodes_are_played_at_the_same_time_until_the_run_ends(gateway: Gateway, tmp_path: Path) -> None:
    """An asynchronous agent; its rewards are by role."""
    now = most = 0

    async def agent(episode: troupe.OpenEpisode) -> dict[str, float]:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key) as client:
            for role in episode.roles:
                await client.chat.completions.create(model=role, messages=ASK)
        await asyncio.sleep(0.2)
        now -= 1
        return {"solver": episode.data["number"], "critic": -1}

    played, sessions = play(gateway, tmp_path, 6, agent, concurrency=3)
    assert (played.episodes, played.failed, most) == (6, 0, 3)
    for session in sessions:
        episode = write_episode(session, 1.0)
        assert (episode.role_return("solver"), episode.role_return("critic")) == (7.0, -1.0)


def test_the_reward_of_a_role_that_never_answered_counts(gateway: Gateway, tmp_path: Path) -> None:
    def agent(episode: troupe.OpenEpisode) -> dict[str, float]:
        client = OpenAI(base_url=episode.base_url, api_key=episode.api_key)
        client.chat.completions.create(model="solver", messages=ASK)
        return {"solver": 1.0, "critic": -3.0}

    _, (session,) = play(gateway, tmp_path, 1, agent)
    episode = write_episode(session, 1.0, (2.0, 1.0))
    assert rewards_by_role(episode) == {"critic": -6.0, "solver": 2.0}
    assert (episode.role_return("critic"), episode.episode_return) == (-6.0, -4.0)


def test_a_function_is_called_in_threads_and_its_exceptions_are_failed_episodes(
    gateway: Gateway, tmp_path: Path
) -> None:
    """After an answer they are mistakes of the policy, unless they are of the infrastructure, or of the program itself."""
    kinds = iter(
        [0.5, ValueError("no such tool"), ConnectionResetError("a tool's server"), {"nobody": 1.0}, "x"]
    )
    lock = threading.Barrier(5)

    def agent(episode: troupe.OpenEpisode) -> Any:
        lock.wait(timeout=30)
        client = OpenAI(base_url=episode.base_url, api_key=episode.api_key)
        client.chat.completions.create(model="solver", messages=ASK)
        kind = next(kinds)
        if isinstance(kind, Exception):
            raise kind
        return kind

    played, sessions = play(gateway, tmp_path, 5, agent, concurrency=5)
    assert (played.episodes, played.failed) == (5, 2), "mistakes of the policy have a reward"
    assert sum(count for _, count in played.errors) == 4
    episodes = [write_episode(session, 0.25) for session in sessions]
    assert sorted(episode.role_return("solver") for episode in episodes if not episode.failed) == [
        -1.0,
        -1.0,
        0.5,
    ]
    errors = " ".join(episode.error for episode in episodes)
    assert (
        "ConnectionResetError: a tool's server" in errors
        and "neither a call of this episode nor a role" in errors
    )


class Refusing(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nothing_that_an_episode_returns_or_raises_ends_the_others(
    gateway: Gateway, tmp_path: Path, asynchronous: bool
) -> None:
    endings: list[Any] = [
        float("nan"), float("inf"), {"solver": float("-inf")}, {"\ud800": 1.0}, "x", object(), 10**400, [1.0],
        SystemExit(3), GeneratorExit(), StopIteration(), asyncio.CancelledError(), Refusing(), ValueError("\ud800"),
        BaseExceptionGroup("two", [SystemExit()]),
    ]  # fmt: skip
    left = [*endings, 1.0]
    known: list[str] = []

    def agent(episode: troupe.OpenEpisode) -> Any:
        known.append(httpx.get(episode.url, trust_env=False).json()["id"])
        result = left.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    async def agent_of_coroutines(episode: troupe.OpenEpisode) -> Any:
        return agent(episode)

    played, sessions = play(
        gateway, tmp_path, len(left), agent_of_coroutines if asynchronous else agent, concurrency=1
    )
    count = len(endings)
    assert (played.episodes, played.failed, len(known)) == (count + 1, count, count + 1)
    assert [bool(session.outcome.error) for session in sessions] == [*[True] * count, False]
    assert "nan" in sessions[0].outcome.error and sessions[-1].outcome.reward == 1.0


def test_an_episode_without_a_reward_is_reported_as_failed(gateway: Gateway, tmp_path: Path) -> None:
    played, sessions = play(gateway, tmp_path, 2, lambda episode: None)
    assert (played.episodes, played.failed) == (2, 2)
    assert played.errors == [("the agent ended without a reward", 2)] == [(sessions[0].outcome.error, 2)]


def test_a_run_that_ends_before_it_has_a_gateway_ends_the_wait(tmp_path: Path) -> None:
    """Whose spool says so, after the program began to wait; a report that a new attempt follows is none."""
    spool = tmp_path / "attempt-1" / "spool" / "driver.jsonl"
    spool.parent.mkdir(parents=True)
    end = {"type": "status", "state": "failed", "message": "no such model", "time": 1.0}
    spool.write_text(json.dumps(end, separators=(",", ":")) + "\n")
    with pytest.raises(TroupeError, match="there is no"):
        troupe.play_episodes(tmp_path, lambda episode: 1.0, patience=0.0, progress=False)
    again = end | {"time": time.time() + 60, "facts": {"retry": True}}
    spool.write_text(json.dumps(again, separators=(",", ":")) + "\n")
    with pytest.raises(TroupeError, match="there is no"):
        troupe.play_episodes(tmp_path, lambda episode: 1.0, patience=0.0, progress=False)
    spool.write_text(json.dumps(end | {"time": time.time() + 60}, separators=(",", ":")) + "\n")
    with pytest.raises(TroupeError, match="has ended before it had a gateway: failed no such model"):
        troupe.play_episodes(tmp_path, lambda episode: 1.0, progress=False)


def test_a_key_in_an_exception_is_not_reported(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def agent(episode: troupe.OpenEpisode) -> float:
        raise ValueError(f"bad key {episode.api_key}")

    played, (session,) = play(gateway, tmp_path, 1, agent)
    assert played.error == "ValueError: bad key <key>" == session.outcome.error
    assert session.key not in caplog.text and "bad key <key>" in caplog.text


def test_lost_connections_are_tried_again(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, lost = httpx.AsyncClient.post, {"/episodes", "/close"}

    async def once_lost(self: httpx.AsyncClient, url: str, **options: Any) -> httpx.Response:
        path = f"/{url.rsplit('/', 1)[1]}"
        if path in lost:
            lost.remove(path)
            raise httpx.ReadError("lost")
        return await send(self, url, **options)

    monkeypatch.setattr(httpx.AsyncClient, "post", once_lost)
    played, (session,) = play(gateway, tmp_path, 1, lambda episode: 1.0)
    assert (played.episodes, played.failed, session.outcome.reward, lost) == (1, 0, 1.0, set())


@pytest.mark.parametrize("status", [0, 502])
def test_a_gateway_that_has_ended_ends_all_workers_at_once(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a lost connection, or by a proxy; the file is a copy, which stays."""
    asked: list[int] = []

    async def post(self: httpx.AsyncClient, url: str, **options: Any) -> httpx.Response:
        asked.append(len(asked))
        if asked[-1] == 0:
            return httpx.Response(409)
        if status:
            return httpx.Response(status)
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.AsyncClient, "post", post)
    monkeypatch.setattr(playing, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(playing, "_AWAY_SECONDS", 0.0)
    (tmp_path / "gateway.json").write_text('{"url": "http://127.0.0.1:9", "token": "t"}')
    played = troupe.play_episodes(tmp_path / "gateway.json", lambda episode: 1.0, progress=False)
    assert (played.episodes, len(asked)) == (0, 2)


@pytest.mark.parametrize(
    ("error", "patience"),
    [("All connection attempts failed", 0.0), ("[SSL: CERTIFICATE_VERIFY_FAILED]", 600.0)],
)
def test_a_gateway_that_never_answers_is_an_error(
    error: str, patience: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def post(self: httpx.AsyncClient, url: str, **options: Any) -> httpx.Response:
        raise httpx.ConnectError(error)

    monkeypatch.setattr(httpx.AsyncClient, "post", post)
    (tmp_path / "gateway.json").write_text('{"url": "http://127.0.0.1:9", "token": "t"}')
    with pytest.raises(TroupeError, match=f"127.0.0.1:9 does not answer: ConnectError {re.escape(error)}"):
        troupe.play_episodes(
            tmp_path / "gateway.json", lambda episode: 1.0, patience=patience, progress=False
        )


def test_errors_before_the_first_episode(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    with pytest.raises(TroupeError, match="runs/abc/gateway.json"):
        troupe.play_episodes("abc", lambda episode: 1.0, patience=0.0, progress=False)
    folder = tmp_path / "runs/abc"
    folder.mkdir(parents=True)
    (folder / "gateway.json").write_text("")
    with pytest.raises(TroupeError, match="is not a gateway.json"):
        troupe.play_episodes("abc", lambda episode: 1.0, progress=False)
    (folder / "gateway.json").write_text(json.dumps({"url": gateway.url, "token": "another"}))
    with pytest.raises(TroupeError, match="token"):
        troupe.play_episodes("abc", lambda episode: 1.0, progress=False)


def test_an_interrupted_program_closes_its_episodes(gateway: Gateway, tmp_path: Path) -> None:
    session = make_session(Scripted("seven"), ROLES)
    (tmp_path / "gateway.json").write_text(json.dumps({"url": gateway.url, "token": gateway.token}))
    gateway.offer([session])

    async def program() -> None:
        player = playing._Player(tmp_path / "gateway.json", agent, 2, progress=False)
        running = asyncio.create_task(player.run(1.0))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    started = asyncio.Event()

    async def agent(episode: troupe.OpenEpisode) -> None:
        started.set()
        await asyncio.sleep(60)

    begun = time.monotonic()
    asyncio.run(program())
    assert session.done.done() and "CancelledError" in session.outcome.error
    assert time.monotonic() - begun < 60
