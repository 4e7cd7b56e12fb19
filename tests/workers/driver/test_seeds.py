"""Runs of several seeds in one process: each is a run of its own, with the curve of a run by itself."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, events, small_networks
from training_core.checkpoints import checkpoints
from training_core.config.files import to_toml
from workers import run
from workers.driver.attempt import reporter_of, run_attempt
from workers.driver.run_events import RunEvents
from workers.driver.seeds import run_seeds
from workers.launchers.launcher import Launch, SeedGroupLaunch, driver_command
from workers.protocol import Attempt
from workers.reporting.reporter import Reporter

SEEDS = (0, 1, 2)


def attempts(home: Path, **more: Any) -> list[Attempt]:
    return [
        Attempt(
            small_networks("spread_mappo", evaluation__episodes=4, run__seed=seed, **more),
            f"r-s{seed}",
            1,
            home / f"r-s{seed}",
            home,
        )
        for seed in SEEDS
    ]


def states(folder: Path, attempt: int = 1) -> list[tuple[str, int]]:
    return [(event["state"], event["iteration"]) for event in events(folder, "status", attempt)]


@pytest.mark.extended
def test_a_stopped_seed_can_be_resumed_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(reporter: Reporter) -> str | None:
        return "stop" if "r-s1" in str(reporter._spool.path) and reporter.iteration == 1 else None

    together = attempts(tmp_path / "together", checkpoint__every=4)
    with monkeypatch.context() as patched:
        patched.setattr(Reporter, "command", property(command))
        assert run_seeds(together) == 0
    folders = [attempt.folder for attempt in together]
    assert [states(folder)[-1] for folder in folders] == [("finished", 4), ("stopped", 1), ("finished", 4)]
    assert [list(checkpoints(folder / "checkpoints")) for folder in folders] == [[4], [1], [4]]
    resumed = Attempt(
        together[1].config, "r-s1", 2, folders[1], tmp_path, checkpoints(folders[1] / "checkpoints")[1]
    )
    assert run_attempt(resumed, local=True) == 0
    for own, folder in zip(attempts(tmp_path / "alone", checkpoint__every=4), folders, strict=True):
        assert run_attempt(own, local=True) == 0
        expected = curve(own.folder)
        curves = curve(folder, *((1, 2) if folder == folders[1] else (1,)))
        assert curves.keys() == expected.keys()
        for key, value in expected.items():
            assert curves[key] == pytest.approx(value, rel=2e-3, abs=1e-4), key
    for folder in folders:
        written = [event["message"] for event in events(folder, "log")]
        assert sum("all workers have started" in text for text in written) == 1


def test_sigterm_stops_all_seeds_with_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    updated = RunEvents.updated

    def update_and_signal(self: RunEvents, iteration: int, *more: Any) -> None:
        updated(self, iteration, *more)
        if iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RunEvents, "updated", update_and_signal)
    before = signal.getsignal(signal.SIGTERM)
    together = attempts(tmp_path, run__iterations=1000, checkpoint__every=0)
    assert run_seeds(together) == 0
    assert signal.getsignal(signal.SIGTERM) is before
    for attempt in together:
        state, iteration = states(attempt.folder)[-1]
        assert state == "stopped" and 1 <= iteration < 1000
        assert max(checkpoints(attempt.folder / "checkpoints")) == iteration


def test_a_seed_that_fails_does_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    updated = RunEvents.updated

    def fail_once(self: RunEvents, iteration: int, *more: Any) -> None:
        if self._config.run.seed == 2 and iteration == 2:
            raise OSError("the disk of this seed is full")
        updated(self, iteration, *more)

    monkeypatch.setattr(RunEvents, "updated", fail_once)
    together = attempts(tmp_path)
    assert run_seeds(together) == 1
    assert [states(attempt.folder)[-1] for attempt in together] == [
        ("finished", 4), ("finished", 4), ("failed", 1)
    ]  # fmt: skip


def test_the_command_makes_a_run_folder_for_each_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--preset", "spread_mappo", "--local", "--seeds", "4..5", "--run", "s", "--home", str(tmp_path)]
    words += ["run.iterations=1", "rollout.environments=2", "evaluation.episodes=2"]
    assert run.main(words) == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"s-s4", "s-s5"}
    assert "seed = 5" in (tmp_path / "runs" / "s-s5" / "config.toml").read_text()
    assert "seed 4  " in capsys.readouterr().out
    assert run.main(words) == run.USAGE_ERROR
    assert "choose another id" in capsys.readouterr().err


def member_words(together: list[Attempt], home: Path) -> list[str]:
    for attempt in together:
        attempt.folder.mkdir(parents=True)
        (attempt.folder / "config.toml").write_text(to_toml(attempt.config))
    members = tuple(Launch(attempt.run, 1, attempt.folder, home) for attempt in together)
    return [*driver_command(SeedGroupLaunch(members, "job"), "python")[3:], "--local"]


def test_members_of_a_job_run_in_their_own_folders(tmp_path: Path) -> None:
    together = attempts(tmp_path, run__iterations=2)
    assert run.main(member_words(together, tmp_path)) == 0
    for attempt in together:
        assert states(attempt.folder)[-1] == ("finished", 2)
        assert max(checkpoints(attempt.folder / "checkpoints")) == 2


def test_a_failure_before_the_start_reaches_every_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(configs: list[Any]) -> None:
        raise MemoryError("no memory for three seeds")

    monkeypatch.setattr("workers.driver.seeds.SeedTurns", fail)
    together = attempts(tmp_path)
    assert run.main(member_words(together, tmp_path)) == 1
    for attempt in together:
        (status,) = events(attempt.folder, "status")
        assert (status["state"], status["facts"]) == ("failed", {"retry": True})
        assert "no memory for three seeds" in status["message"]
    assert "seed 2  lost: " in capsys.readouterr().out


def test_a_superseded_seed_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(reporter: Reporter) -> str | None:
        return "exit" if "r-s1" in str(reporter._spool.path) and reporter.iteration == 1 else None

    monkeypatch.setattr(Reporter, "command", property(command))
    together = attempts(tmp_path)
    assert run_seeds(together) == 0
    assert [states(attempt.folder)[-1][0] for attempt in together] == ["finished", "running", "finished"]


@pytest.mark.extended
def test_an_ended_seed_waits_for_its_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server does not answer: the final status of a stopped seed is not left on disk while the others train."""
    reporters: list[Reporter] = []
    closing: list[bool] = []
    updated = RunEvents.updated

    def make(attempt: Attempt) -> Reporter:
        reporters.append(reporter_of(attempt))
        return reporters[-1]

    def command(reporter: Reporter) -> str | None:
        return "stop" if "r-s1" in str(reporter._spool.path) and reporter.iteration == 1 else None

    def note(self: RunEvents, iteration: int, *more: Any) -> None:
        if iteration == 4:
            closing.append(reporters[1]._closing.is_set())
        updated(self, iteration, *more)

    monkeypatch.setattr("workers.driver.seeds.reporter_of", make)
    monkeypatch.setattr(Reporter, "command", property(command))
    monkeypatch.setattr(Reporter, "has_stored", lambda self, seq: False)
    monkeypatch.setattr(RunEvents, "updated", note)
    assert run_seeds(attempts(tmp_path)) == 0
    assert closing == [False, False]
    assert all(reporter._closing.is_set() for reporter in reporters)
