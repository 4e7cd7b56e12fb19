"""The reporting client without a server: events on disk, refused arguments, the end of a run."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

import troupe
from training_core.errors import TroupeError
from troupe_client.reporting.client import ClientRun, run_begin
from troupe_client.reporting.scalars import Scalars
from workers.telemetry.events import AnyEvent

EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


@pytest.fixture
def run(tmp_path: Path) -> ClientRun:
    return run_begin(mode="offline", dir=str(tmp_path))


def stored_events(run: ClientRun, kind: str = "") -> list[dict[str, Any]]:
    """What is on disk; every line is one the server's own schema accepts."""
    lines = [
        line for path in sorted(run.folder.rglob("spool/*.jsonl")) for line in path.read_text().splitlines()
    ]
    for line in lines:
        EVENTS.validate_json(line)
    return [event for event in map(json.loads, lines) if kind in ("", event["type"])]


def test_scalars_of_every_kind_and_depth() -> None:
    values = {
        "a": 1, "b": True, "c": np.float32(0.5), "d": torch.tensor([2.0]), "e": Decimal("0.25"),
        "train": {"loss": np.array(3.0), "deep": {"x": 4}},
    }  # fmt: skip
    flat = Scalars().flat(values)
    assert flat == {"a": 1, "b": 1.0, "c": 0.5, "d": 2.0, "e": 0.25, "train/loss": 3.0, "train/deep/x": 4}


def test_names_keep_their_letters() -> None:
    names = ["奖励", "loss (mean)", "pass@1", "pass#1", "acc_α", "e\u0301", "\u00e9", '"quoted"', "a/b c"]
    names += ["👩\u200d🔬", ".x"]
    assert list(Scalars().flat(dict.fromkeys(names, 1.0))) == names


def test_names_that_cannot_be_stored_never_merge(caplog: pytest.LogCaptureFixture) -> None:
    long = "é" * 200
    keys = ["", "/x", "_/x", " x", "a\nb", "a\tb", "a,b", "a_b", "\ud800", f"{long}1", f"{long}2", 7]
    scalars = Scalars()
    for _ in range(2):
        names = list(scalars.flat(dict.fromkeys(keys, 1.0)))
        head = {
            "run": "r", "attempt": 1, "producer": "p", "seq": 1, "time": 1.0, "type": "metrics", "step": 1,
        }  # fmt: skip
        EVENTS.validate_python(head | {"values": dict.fromkeys(names, 1.0)})
        assert len(set(names)) == len(keys) and {"_/x", "a_b", "7"} <= set(names)
    assert len(caplog.records) == 9 and "'a,b' is stored as 'a_b~" in caplog.text


def test_what_is_not_a_number_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {"t": "text", "b": b"text", "v": np.zeros(2), "w": torch.zeros(3), "n": None, "l": [1.0]}
    wrong |= {"d": "3.5", "c": 1j}
    scalars = Scalars()
    for _ in range(3):
        assert scalars.flat({"loss": 1.0, **wrong, "deep": {"x": None, "y": 2}}) == {"loss": 1.0, "deep/y": 2}
    (record,) = caplog.records
    assert "t (str)" in record.getMessage() and "deep/x (NoneType)" in record.getMessage()


def test_whole_numbers_of_any_size_can_be_stored() -> None:
    flat = Scalars().flat({"a": 2**63 - 1, "b": 2**64, "c": -(10**400)})
    assert flat == {"a": 2**63 - 1, "b": float(2**64), "c": float("-inf")}


def test_steps_count_up_unless_they_are_given(run: ClientRun) -> None:
    run.log({"a": 1.0})
    run.log({"a": 2.0}, commit=False)
    run.log({"b": 3.0})
    run.log({"a": float("nan")}, step=40)
    run.log({"a": 5.0})
    run.finish()
    seen = [(event["step"], event["values"]) for event in stored_events(run, "metrics")]
    assert seen == [(0, {"a": 1.0}), (1, {"a": 2.0}), (1, {"b": 3.0}), (40, {"a": "NaN"}), (41, {"a": 5.0})]
    assert [event["state"] for event in stored_events(run, "status")] == ["running", "finished"]
    assert stored_events(run, "status")[-1]["iteration"] == 42
    assert str(run) == f"{run.id} (finished): {run.folder}"


def test_threads_share_a_run(run: ClientRun) -> None:
    def work(name: str) -> None:
        for value in range(200):
            run.log({name: value})

    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()
    events = stored_events(run, "metrics")
    assert sorted(event["step"] for event in events) == list(range(800))
    for number in range(4):
        values = [event["values"].get(f"thread {number}") for event in events]
        assert [value for value in values if value is not None] == list(range(200))


def test_messages_become_turns_and_the_last_has_the_reward(run: ClientRun) -> None:
    talk = [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "5"}, {"role": "user", "content": "no"}, {"role": "assistant", "content": "4"},
    ]  # fmt: skip
    run.log_episode(talk, reward=1.5, role="solver", success=True, task="sum-1")
    run.finish()
    (episode,) = stored_events(run, "episode")
    assert [turn["candidates"][0]["text"] for turn in episode["turns"]] == ["5", "4"]
    assert [turn["candidates"][0]["reward"] for turn in episode["turns"]] == [0.0, 1.5]
    assert [len(turn["messages"]) for turn in episode["turns"]] == [2, 4]
    assert episode["episode_return"] == 1.5 and episode["rewards"] == {"solver": 1.5}
    assert episode["task"] == "sum-1" and episode["title"] == "2 + 2?" and episode["success"] is True


def test_turns_with_candidates_and_token_ids(run: ClientRun) -> None:
    group = [
        {"text": "a", "reward": 0.0, "token_ids": [1]},
        {"text": "b", "reward": 2.0, "token_ids": [2, 3]},
    ]
    run.log_episode(turns=[{"role": "coder", "policy": "p", "candidates": group, "executed": 1}], kind="eval")
    run.finish()
    (episode,) = stored_events(run, "episode")
    assert episode["rewards"] == {"coder": 2.0} and episode["tokens"] == 3 and episode["kind"] == "eval"


def test_two_episodes_of_a_step_have_two_names_and_no_success_is_unknown(run: ClientRun) -> None:
    for _ in range(2):
        run.log_episode([{"role": "assistant", "content": "x"}], reward=0)
    run.finish()
    events = stored_events(run, "episode")
    assert len({event["episode"] for event in events}) == 2 and events[0]["success"] is None


@pytest.mark.parametrize(
    "fields",
    [{}, {"messages": [], "turns": []}, {"messages": [], "colour": "red"}, {"turns": [{"role": "a"}]}],
)
def test_an_invalid_episode_is_refused(run: ClientRun, fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        run.log_episode(**fields)
    run.finish()


def test_a_finished_run_refuses_values(run: ClientRun) -> None:
    assert run.finish() and run.finish()
    with pytest.raises(RuntimeError, match="ended"):
        run.log({"a": 1.0})


def test_an_exception_in_the_block_ends_the_run_as_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_begin(mode="offline", dir=str(tmp_path)) as run:
        run.log({"a": 1 / 0})
    last = stored_events(run, "status")[-1]
    assert last["state"] == "failed" and last["message"].startswith("ZeroDivisionError")


def test_disabled_mode_writes_nothing_but_checks_values(tmp_path: Path) -> None:
    run = run_begin(mode="disabled", dir=str(tmp_path))
    run.log({"a": 1.0})
    with pytest.raises(TypeError):
        run.log_episode([], reward=0, colour="red")
    assert run.finish() and not list(tmp_path.iterdir())


def test_rank_zero_reports_for_a_distributed_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for rank, role, reports in (("0", "", True), ("3", "", False), ("3", "rank 3", True)):
        monkeypatch.setenv("RANK", rank)
        caplog.clear()
        run = run_begin(mode="offline", dir=str(tmp_path / f"{rank}{role}"), role=role)
        run.log({"loss": 1.0})
        run.finish()
        assert run.folder.exists() == reports and ("Rank 3 does not report" in caplog.text) != reports


@pytest.mark.parametrize(
    "options", [{"mode": "loud"}, {"id": "short"}, {"id": "CAPITALS1"}, {"resume": "must"}, {"colour": "red"}]
)
def test_bad_arguments_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TroupeError):
        run_begin(**{"mode": "offline", "dir": str(tmp_path), **options})


PROGRAM = """
import sys
import troupe
troupe.init(project="lab", name="outside", mode="offline")
troupe.log({"loss": 1.0})
loaded = {"ray", "torch", "django", "transformers", "pandas"} & set(sys.modules)
assert not loaded, loaded
%s
"""


ENDS = {
    "": ("finished", "", 0),
    "raise ValueError('bad loss')": ("failed", "ValueError: bad loss", 1),
    "raise KeyboardInterrupt": ("failed", "KeyboardInterrupt", -2),
    "sys.exit()": ("finished", "", 0),
    "sys.exit(0)": ("finished", "", 0),
    "sys.exit(3)": ("failed", "exit code 3", 3),
    "sys.exit('loss is NaN')": ("failed", "loss is NaN", 1),
    # Hydra and click print an exception themselves.
    "try: 1 / 0\nexcept ZeroDivisionError: sys.exit(1)":
        ("failed", "exit code 1 after ZeroDivisionError: division by zero", 1),
    "sys.excepthook = lambda *_: None\nraise ValueError('hidden')": ("failed", "ValueError: hidden", 1),
    "def main():\n try: sys.exit(4)\n finally: troupe.run.step\nmain()": ("failed", "exit code 4", 4),
    # Caught: the program continues.
    "def quiet():\n try: sys.exit(2)\n except SystemExit: pass\nquiet()": ("finished", "", 0),
    "try: sys.exit(2)\nexcept SystemExit: troupe.log({'loss': 2})": ("finished", "", 0),
    "import threading; t = threading.Thread(target=sys.exit, args=(2,)); t.start(); t.join()":
        ("finished", "", 0),
    "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)": ("failed", "ended by SIGTERM", -15),
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)":
        ("finished", "", 0),
}  # fmt: skip


@pytest.mark.parametrize("last", [pytest.param(last, id=last[:40]) for last in ENDS])
def test_the_end_of_a_program_is_the_end_of_its_run(tmp_path: Path, last: str) -> None:
    state, message, code = ENDS[last]
    environment = {**os.environ, "TROUPE_DIR": str(tmp_path), "TROUPE_RUN_ID": "abcdefgh23"}
    program = PROGRAM % f"import os, signal, time\n{last}"
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=500, capture_output=True)
    assert done.returncode == code, done.stderr
    lines = [
        json.loads(line) for path in tmp_path.rglob("spool/*.jsonl") for line in path.read_text().splitlines()
    ]
    assert (tmp_path / "runs" / "abcdefgh23").is_dir()
    ended = [line for line in lines if line["type"] != "heartbeat"][-1]
    assert (ended["type"], ended["state"], ended["message"]) == ("status", state, message)


def test_log_without_init_is_refused() -> None:
    with pytest.raises(RuntimeError, match="troupe.init"):
        troupe.log({"a": 1.0})
    assert troupe.finish()


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A trainer of a model of two layers, whose callback reports to files."""
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    monkeypatch.setenv("TROUPE_DIR", str(tmp_path))
    monkeypatch.setenv("TROUPE_MODE", "offline")
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 8
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}

    def make(steps: int = 2, **options: Any) -> Any:
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **sizes))
        settings = {"eval_strategy": "steps", "eval_steps": 1, "logging_steps": 1, "learning_rate": 0.25}
        arguments = TrainingArguments(
            str(tmp_path / "out"), max_steps=steps, report_to=[], use_cpu=True, disable_tqdm=True, **settings
        )
        callbacks = [troupe.trainer_callback(**options)]
        return Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks)

    return make


def steps_of(run: ClientRun, key: str) -> list[int]:
    """Steps at which a run has a metric."""
    return [event["step"] for event in stored_events(run, "metrics") if key in event["values"]]


@pytest.mark.slow
def test_a_trainer_reports_what_comes_before_and_after_training(trained: Callable[..., Any]) -> None:
    trainer = trained(name="callback", steps=2)
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    run = troupe.run
    assert run and run.state == "running"
    trainer.log({"eval_words": np.float32(0.5), "loss": torch.tensor(2.0), "rewards/mean": 1})
    values = {"eval/words": 0.5, "train/loss": 2.0, "rewards/mean": 1, "train/epoch": 2.0}
    assert stored_events(run, "metrics")[-1]["values"] == values
    assert steps_of(run, "eval/loss") == [0, 1, 2, 2] and set(steps_of(run, "train/loss")) == {1, 2}
    asked = json.loads((run.folder / "client.json").read_text())
    assert asked["config"]["learning_rate"] == 0.25 and asked["config"]["report_to"] == []
    assert asked["name"] == "callback"
    assert troupe.finish() and stored_events(run, "status")[-1]["iteration"] == 2
    trainer.evaluate()  # reported nowhere, with a warning
    assert troupe.run is None


@pytest.mark.slow
def test_a_trainer_uses_the_open_run_and_leaves_it_open(trained: Callable[..., Any]) -> None:
    mine = troupe.init(name="mine")
    troupe.log({"before": 1})
    trained(name="not used").train()
    troupe.log({"after": 1})
    assert troupe.run is mine and steps_of(mine, "train/loss") == [1, 2] and steps_of(mine, "after") == [3]
    troupe.finish()
    trained().train()
    first = troupe.run
    trained().train()
    assert first and troupe.run and troupe.run is not first and first.state == "finished"
    troupe.finish()
    ended = troupe.init()
    ended.finish()  # not by troupe.finish: the name troupe.run remains
    trained().train()
    assert troupe.run and troupe.run is not ended and troupe.run.state == "running"
    troupe.finish()


def test_only_rank_zero_reports(tmp_path: Path) -> None:
    from transformers import TrainerControl, TrainerState

    state = TrainerState(is_world_process_zero=False)
    callback = troupe.trainer_callback(mode="offline", dir=str(tmp_path))
    callback.on_train_begin(None, state, TrainerControl())
    callback.on_log(None, state, TrainerControl(), logs={"loss": 0.5})
    callback.on_train_end(None, state, TrainerControl())
    assert not list(tmp_path.iterdir())


CHILDREN = """
import multiprocessing, sys
import troupe

def work(id, how):
    troupe.init(id=id, role=how, mode="offline")
    troupe.log({"loss": 1.0})
    if how == "exit":
        sys.exit(3)
    if how == "error":
        raise ValueError("no data")

if __name__ == "__main__":
    run = troupe.init(mode="offline", id="abcdefgh23")
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=work, args=(run.id, how)) for how in ("well", "exit", "error")]
    for child in children:
        child.start()
    for child in children:
        child.join()
    troupe.log({"loss": 0.5})
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_processes_report_as_programs_of_their_own(tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(CHILDREN)
    environment = {**os.environ, "TROUPE_DIR": str(tmp_path), "PYTHONPATH": str(Path(troupe.__file__).parent)}
    subprocess.run(
        [sys.executable, program, method], env=environment, check=True, capture_output=True, timeout=500
    )
    seen = {}
    for path in tmp_path.rglob("spool/*.jsonl"):
        lines = map(json.loads, path.read_text().splitlines())
        events = [event for event in lines if event["type"] != "heartbeat"]
        seen[events[0]["facts"]["role"]] = events[-1]["state"], events[-1]["message"]
    assert seen == {
        "": ("finished", ""),
        "well": ("finished", ""),
        "exit": ("failed", "exit code 3"),
        "error": ("failed", "ValueError: no data"),
    }
