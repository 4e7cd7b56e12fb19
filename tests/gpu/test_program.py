"""The GPU program: its registry, its results, and that steps are run once, alone and within their limits."""

import inspect
import json
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.benchmarks.folders import ROOT
from tests.benchmarks.results import read_result
from tests.gpu import runner
from tests.gpu.__main__ import main
from tests.gpu.registry import CALLS, STEPS, Bound, Call, Step
from tests.gpu.results import finished_result, verdicts
from tests.gpu.runner import LIMIT, run_steps
from tests.gpu.setting import Setting, make_setting
from tests.gpu.table import BEGIN, END, MISSING, PAGE, make_table, write_table
from training_core.importing import resolve

RESULT = {
    "step": "engine",
    "state": "finished",
    "small": True,
    "figures": {"n": 1},
    "bounds": [],
    "seconds": 1.0,
}
DONE = f"""
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
with (out / "runs").open("a") as runs: runs.write("x")
(out / "engine.json").write_text({json.dumps(json.dumps(RESULT))})
"""
CRASH = """
import os, pathlib, signal, sys
(pathlib.Path(sys.argv[1]) / "engine.draft.json").write_text('{"before": 3}')
print("about to end", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def use(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Steps run this program instead."""
    monkeypatch.setattr(
        runner, "step_command", lambda name, out, small: [sys.executable, "-c", code, str(out)]
    )


def run(out: Path, **more: Any) -> list[str]:
    return run_steps(["engine"], out, **{"small": True, "again": False, "budget": 60.0} | more)


@pytest.mark.parametrize("name", STEPS)
def test_every_step_has_a_function_with_its_options(name: str) -> None:
    step = STEPS[name]
    parameters = inspect.signature(resolve(f"tests.gpu.steps.{step.run}")).parameters
    assert list(parameters) == ["setting", *step.options]
    assert step.about and 0 < step.seconds <= LIMIT


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ([], "var/benchmarks/results/gpu"),
        (["--small"], "var/benchmarks/results/gpu-small"),
        (["--record"], "tests/benchmarks/results/gpu"),
    ],
)
def test_only_record_writes_among_the_tracked_results(
    words: list[str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr("tests.gpu.__main__.run_steps", lambda names, out, **_: folders.append(out))
    main(words)
    assert folders == [ROOT / folder]


def test_results_of_tiny_shapes_are_not_recorded() -> None:
    with pytest.raises(SystemExit):
        main(["--small", "--record"])


def test_a_finished_step_is_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, DONE)
    run(tmp_path)
    run(tmp_path)
    assert (tmp_path / "runs").read_text() == "x"
    run(tmp_path, again=True)
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_result_of_another_size_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, DONE)
    (tmp_path / "engine.json").write_text(json.dumps(RESULT | {"small": False}))
    run(tmp_path)
    assert (tmp_path / "runs").read_text() == "x"


def test_a_crash_leaves_its_reason_and_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, CRASH)
    run(tmp_path)
    result = read_result(tmp_path, "engine")
    assert result is not None and result["state"] == "failed" and result["figures"] == {"before": 3}
    assert "exit status -9" in result["reason"] and "about to end" in result["reason"]
    use(monkeypatch, DONE)
    run(tmp_path)
    assert read_result(tmp_path, "engine") == RESULT


def test_a_step_finds_the_packages_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/packages/one:/packages/two")
    assert runner.variables("engine")["PYTHONPATH"].split(":") == [
        str(ROOT),
        "/packages/one",
        "/packages/two",
    ]
    monkeypatch.delenv("PYTHONPATH")
    assert runner.variables("engine")["PYTHONPATH"] == str(ROOT)


def test_a_step_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, "import time; time.sleep(600)")
    run(tmp_path, limit=0.5)
    result = read_result(tmp_path, "engine")
    assert result is not None and "ended at its limit" in result["reason"]


def test_a_failed_repetition_keeps_the_earlier_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, DONE)
    run(tmp_path)
    use(monkeypatch, "raise SystemExit(3)")
    run(tmp_path, again=True)
    result = read_result(tmp_path, "engine")
    assert result is not None and result["state"] == "failed" and result["previous"] == RESULT


def test_no_step_starts_beyond_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, DONE)
    assert run(tmp_path, small=False, budget=STEPS["engine"].seconds - 1) == ["engine"]
    assert not (tmp_path / "runs").exists()


def test_a_call_runs_steps_side_by_side_and_then_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    barrier, calls = Barrier(2, timeout=60), []

    def step(name: str, out: Path, *, small: bool, limit: float) -> dict[str, Any]:
        if name in ("engine", "packing"):
            barrier.wait()  # both run, or neither returns
        calls.append((name, limit <= 40.0))
        return RESULT

    monkeypatch.setattr(runner, "run_step", step)
    runner.run_call(Call(40.0, ("engine", "packing"), ("lora", "marl")), tmp_path, small=True)
    assert sorted(calls[:2]) == [("engine", True), ("packing", True)]
    assert calls[2:] == [("lora", True), ("marl", True)]
    runner.run_call(Call(runner.SHORTEST, ("engine",), ("lora",)), tmp_path, small=True)
    assert len(calls) == 4, "no step starts at the end of a call"


def test_calls_have_steps_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    for call in CALLS.values():
        assert {*call.together, *call.then} <= set(STEPS)
    for word in ("engine", "--again", "--budget=9"):
        with pytest.raises(SystemExit):
            main(["--first-call", word])
        assert "omit names of steps" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(STEPS, "engine", Step("engine:check_engine", "x", 1, needs=("no_such_package",)))
    run(tmp_path)
    result = read_result(tmp_path, "engine")
    assert result is not None and result["reason"] == "no_such_package is not installed"


def test_bounds_are_written_out_and_judged() -> None:
    step = Step("a:b", "x", 1, bounds=(Bound("error", "<", 1e-3), Bound("speed", ">=", 3000, card_only=True)))
    figures = {"error": 2e-3, "speed": 10.0}
    assert verdicts(step, figures, small=True) == [
        {"bound": "error < 0.001", "value": 2e-3, "holds": False},
        {"bound": "speed >= 3000", "value": 10.0, "holds": None},
    ]
    assert [row["holds"] for row in verdicts(step, {"error": float("nan")}, small=False)] == [False, False]
    assert [row["holds"] for row in verdicts(step, {"error": 0.0, "speed": 3000}, small=False)] == [
        True,
        True,
    ]


def test_unknown_steps_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["no_such_step", "--small"])
    assert "there is no step no_such_step" in capsys.readouterr().err
    assert main(["--list"]) == 0
    assert "mfu >= 0.4" in capsys.readouterr().out


def test_the_whole_size_needs_a_card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA device"):
        make_setting(False, tmp_path, "engine")


def test_results_name_the_machine(tmp_path: Path) -> None:
    setting = make_setting(True, tmp_path, "engine")
    result = finished_result("engine", setting, {"greedy_tokens_that_differ": 0}, 1.0)
    assert {"card", "driver", "cuda", "torch", "transformers", "commit"} <= result["machine"].keys()
    assert result["machine"]["card"] is None and result["small"]


def measured(step: str, **figures: Any) -> dict[str, Any]:
    machine = {"card": "H", "driver": "1", "cuda": "2", "torch": "3", "commit": "abcdefghij"}
    options = dict(STEPS[step].options)
    return {"state": "finished", "small": False, "figures": figures, "machine": machine, "options": options}


def test_the_table_shows_only_what_a_card_measured(tmp_path: Path) -> None:
    (tmp_path / "generation_8b.json").write_text(
        json.dumps(measured("generation_8b", tokens_per_second=5) | {"small": True})
    )
    assert "None is recorded" in make_table(tmp_path)
    (tmp_path / "update_1.7b.json").write_text(json.dumps(measured("update_1.7b", mfu=0.437)))
    table = make_table(tmp_path)
    assert "| update, 1.7B, bf16 | 44 % MFU | ≥ 40 % |" in table and "commit abcdefgh" in table
    assert f"| generation, 8B, bf16 | {MISSING} |" in table


def test_the_table_has_all_arms_of_the_learning_runs(tmp_path: Path) -> None:
    for index, name in enumerate(
        name for name in STEPS if name.startswith("learning_") and name != "learning_base"
    ):
        rows = [
            {
                "iteration": step,
                "answers": 100 * step,
                "greedy": 0.1 * step + 0.01 * index,
                "sampled": 0.1 * step,
            }
            for step in range(3)
        ]
        swapped = {"greedy": 0.05, "sampled": 0.04}
        (tmp_path / f"{name}.json").write_text(json.dumps(measured(name, rows=rows, swapped=swapped)))
    assert "AT-GRPO, a policy per role" in make_table(tmp_path)
    assert "Budget: 200 sampled answers" in make_table(tmp_path)


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_table(page, "| new |")
    assert page.read_text() == f"before\n{BEGIN}\n| new |\n{END}\nafter\n"


def test_the_readme_has_the_table_of_the_stored_results() -> None:
    from tests.gpu.__main__ import RECORDED

    assert f"{BEGIN}\n{make_table(RECORDED)}\n{END}" in PAGE.read_text()


def small(tmp_path: Path, name: str) -> Setting:
    return make_setting(True, tmp_path, name)


ONCE = {step.run: name for name, step in reversed(STEPS.items())}
"""One step of each function."""


@pytest.mark.extended
@pytest.mark.filterwarnings("default")  # other packages warn
@pytest.mark.parametrize("name", ONCE.values())
def test_every_step_runs_in_its_small_form(name: str, tmp_path: Path) -> None:
    step = STEPS[name]
    for package in step.needs:
        pytest.importorskip(package)
    figures = resolve(f"tests.gpu.steps.{step.run}")(small(tmp_path, name), **step.options)
    json.dumps(figures)
    for row in verdicts(step, figures, small=True):
        assert row["holds"] is not False, row
