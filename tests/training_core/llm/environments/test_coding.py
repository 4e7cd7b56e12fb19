"""coding: rewards by hand, real programs in the real sandbox, problems from seeds and files."""

import json
import shutil
from pathlib import Path

import pytest

from tests.training_core.llm.environments.puzzles import check_demonstrations, check_play, check_splits
from training_core.errors import ConfigError, EnvironmentFailure, SandboxFailure
from training_core.llm.environments.coding import (
    CODING_TASKS,
    Coding,
    CodingEnvironment,
    CodingSingle,
    Problem,
    Step,
    Test,
    applied,
    program,
    read_program,
    read_tests,
    stated,
)
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.environments.registry import ENVIRONMENTS
from training_core.sandbox import run as sandbox
from training_core.sandbox.run import run_program

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

RIGHT = "n = int(input()) ; print( n * 2 )"
DOUBLE = Problem(
    statement="times 2",
    tests=tuple(Test(input=str(value), output=str(2 * value)) for value in (0, 2, 3, 5)),
    solution=RIGHT,
)


def started(problem: Problem = DOUBLE, **settings: float) -> CodingEnvironment:
    """An environment on a given problem."""
    environment = CodingEnvironment(Coding(**settings), seed=0)  # type: ignore[arg-type]
    environment.start(problem, "train-0")
    return environment


def paid(environment: CodingEnvironment, role: str, answer: str) -> tuple[float, float]:
    result = environment.act(role, answer)
    return result.local_reward, result.team_reward


def test_a_right_program_and_right_tests_by_hand() -> None:
    environment = started()
    assert environment.observe("coder") == "task times 2 ; tests none"
    assert paid(environment, "tester", "2 -> 4 , 3 -> 7") == (0.5, 0.0)
    assert environment.observe("coder") == "task times 2 ; tests 2 -> 4 , 3 -> 7"
    assert paid(environment, "coder", RIGHT) == (1.0, 0.0), "a wrong test disagrees: the episode goes on"
    assert (environment.success, environment.done) == (True, False)
    told = "task times 2 ; tests 2 -> 4 good , 3 -> 7 got 6"
    assert environment.observe("tester") == told
    assert environment.observe("coder") == f"{told} ; program {RIGHT}"
    assert paid(environment, "tester", "1 -> 2") == (1.0, 0.0)
    assert paid(environment, "coder", RIGHT) == (1.0, 1.0)
    assert environment.done and environment.outcome == "4 of 4 hidden tests passed in 2 turns"


def test_tester_and_coder_succeed_apart_from_each_other() -> None:
    environment = started()
    assert environment.role_success == {"coder": False}, "nobody has written a test yet"
    environment.act("tester", "2 -> 4 , 3 -> 7")
    environment.act("coder", RIGHT)
    assert environment.role_success == {"coder": True, "tester": False}
    environment.act("tester", "1 -> 2")
    assert environment.role_success == {"coder": True, "tester": True}
    environment.act("tester", "none")
    assert environment.role_success["tester"] is False


def test_a_program_is_paid_by_the_share_of_hidden_tests() -> None:
    environment = started(fail_reward=-0.25, max_turns=1)
    environment.act("tester", "2 -> 4")
    assert paid(environment, "coder", "n = int(input()) ; print( n + 2 )") == (0.25, -0.25), (
        "right for 2 alone"
    )
    assert environment.done and not environment.success


def test_agreement_on_a_wrong_program_ends_without_success() -> None:
    environment = started()
    environment.act("tester", "3 -> 5")
    assert paid(environment, "coder", "n = int(input()) ; print( n + 2 )") == (0.25, 0.0)
    assert environment.done and not environment.success


def test_the_coder_may_speak_first() -> None:
    environment = started()
    assert paid(environment, "coder", RIGHT) == (1.0, 0.0)
    assert not environment.done
    assert paid(environment, "tester", "2 -> 4") == (1.0, 1.0)
    assert environment.done and environment.success


@pytest.mark.parametrize(
    ("role", "answer"), [("coder", "print("), ("coder", ""), ("tester", "four"), ("tester", "2 ->")]
)
def test_what_is_no_answer_costs_its_speaker(role: str, answer: str) -> None:
    assert paid(started(), role, answer) == (-0.1, 0.0)


def test_programs_that_hang_or_crash_pass_nothing_and_hurt_nobody() -> None:
    environment = started(test_seconds=1.0)
    environment.act("tester", "2 -> 4")
    assert paid(environment, "coder", "while True: pass") == (0.0, 0.0)
    assert environment.observe("tester").endswith("2 -> 4 got timeout")
    environment.act("tester", "2 -> 4")
    assert paid(environment, "coder", "raise SystemExit(3)") == (0.0, 0.0)
    assert environment.observe("tester").endswith("2 -> 4 got error")


def test_the_hidden_tests_cannot_be_read_by_a_program() -> None:
    curious = "import gc, sys\nprint([o for o in gc.get_objects() if isinstance(o, dict) and 'output' in o], sys.argv)"
    assert "'6'" not in run_program(curious, ["3"])[0].output
    assert paid(started(), "coder", curious) == (0.0, 0.0)


def test_without_a_known_solution_tests_are_not_paid() -> None:
    environment = started(DOUBLE.model_copy(update={"solution": ""}))
    assert paid(environment, "tester", "2 -> 4") == (0.0, 0.0)


def test_programs_are_taken_from_fences() -> None:
    assert read_program("First:\n```python\nprint(1)\n```\nbetter:\n```\nprint(2)\n```\n") == "print(2)"
    assert read_program(" print(3) ") == "print(3)"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("<think>\n```python\nprint(1)\n```\n</think>\n```python\nprint(2)\n```", "print(2)"),
        ("```python\nprint(1)\n```\n</think>\nI give up", "I give up"),
        ("<think>```python\nprint(1)</think>```python\nprint(2)\n```", "print(2)"),
        ("```python\nprint('</think>')\n```", "print('</think>')"),
        ("<think>a</think>print(3)", "print(3)"),
        ("```python3\nprint(1)\n```\nor\n```Python 3.11\nprint(2)\n```\nthat is it", "print(2)"),
    ],
)
def test_programs_of_the_thought_do_not_count(answer: str, program: str) -> None:
    assert read_program(answer) == program


def test_tests_of_the_thought_do_not_count() -> None:
    assert read_tests("maybe 1 -> 9\n</think>2 -> 4") == (Test(input="2", output="4"),)


def test_time_of_all_tests_together_grows_with_their_number() -> None:
    environment = started(test_seconds=2.0)
    assert [environment._limits(count).cpu_seconds for count in (1, 2, 10)] == [4, 4, 20]


def test_tests_are_read_line_by_line() -> None:
    assert read_tests("2 -> 4 , 3 -> 6\n1\\n2 -> 3\nhm") == (
        Test(input="2", output="4"),
        Test(input="3", output="6"),
        Test(input="1\n2", output="3"),
    )


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_generated_solutions_are_right(steps: int) -> None:
    for number in range(10):
        problem = CODING_TASKS.instance(Coding(steps=steps, largest=9), 0, number, "train")
        ran = run_program(problem.solution, [test.input for test in problem.tests])
        assert [one.output.strip() for one in ran] == [test.output for test in problem.tests]
        assert len({test.input for test in problem.tests}) == 4


def test_a_chain_by_hand() -> None:
    chain = (Step("add", 3), Step("times", 2), Step("subtract", 1))
    assert stated(chain) == "add 3 then times 2 then subtract 1"
    assert applied(chain, 2) == 9
    assert program(chain) == "n = int(input()) ; print( ( ( n + 3 ) * 2 ) - 1 )"


def test_demonstrations_leave_something_to_learn() -> None:
    pairs = check_demonstrations(Coding(steps=1), 400)
    programs = [(seen, said) for seen, said in pairs if "print(" in said]
    right = [said == program((Step(seen.split()[1], int(seen.split()[2])),)) for seen, said in programs]
    assert 0.2 < sum(right) / len(right) < 0.6


def test_play_keeps_to_the_vocabulary_and_boards_can_be_drawn() -> None:
    answers = {"tester": ["1 -> 2", "2 -> 4 , 3 -> 6", "hm"], "coder": [RIGHT, "print(", "print( n )"]}
    check_splits(CODING_TASKS, Coding(steps=2, largest=9))
    check_play(Coding(), answers, tasks=6)


def test_problems_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl"
    problems = [
        {
            "statement": f"Print {number} times the number.",
            "tests": [{"input": "2", "output": str(2 * number)}],
        }
        for number in range(40)
    ]
    file.write_text("\n".join(map(json.dumps, problems)))
    config = Coding(problems=str(file))
    train = {CODING_TASKS.instance(config, 0, number, "train").statement for number in range(200)}
    held = {CODING_TASKS.instance(config, 0, number, "eval").statement for number in range(200)}
    assert train and held and not train & held
    environment = CodingEnvironment(config, 0)
    environment.reset(3, "train")
    assert environment.problem.tests[0].input == "2"


def test_bad_files_are_named_by_line(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl"
    file.write_text(
        '{"statement": "x", "tests": [{"input": "1", "output": "1"}]}\n\n{"statement": "y", "tests": []}\n'
    )
    with pytest.raises(EnvironmentFailure, match="line 3: tests: "):
        CodingEnvironment(Coding(problems=str(file)), 0).reset(0, "train")
    with pytest.raises(ConfigError, match="environment.problems: there is no file"):
        CodingEnvironment(Coding(problems=str(tmp_path / "none")), 0).reset(0, "train")


def test_without_a_sandbox_the_environment_refuses_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    sandbox.check_sandbox.cache_clear()
    sandbox._run.cache_clear()
    sandbox._sandbox.cache_clear()
    try:
        with pytest.raises(SandboxFailure, match="apt-get install bubblewrap"):
            EnvironmentHost(Coding(), 0)
    finally:
        sandbox.check_sandbox.cache_clear()


def test_a_single_agent_writes_tests_and_the_program() -> None:
    """It is paid for both: half of the tests are right, all or a quarter of the hidden ones pass."""
    single = ENVIRONMENTS["coding_single"].make(CodingSingle(), 0)
    single.start(DOUBLE, "train-0")
    assert single.observe("coder") == "task times 2 ; tests none"
    answer = "2 -> 4\n3 -> 7\n```python\n{}\n```"
    assert paid(single, "coder", answer.format("print(int(input()) + 2)")) == (0.5 + 0.25, 0.0)
    assert single.observe("coder") == (
        "task times 2 ; tests 2 -> 4 good , 3 -> 7 got 5 ; program print(int(input()) + 2)"
    )
    assert not single.done and single.turns == 1
    assert paid(single.copy(), "coder", "```\nprint(\n```") == (-0.1 - 0.1, 0.0)
    assert paid(single, "coder", answer.replace("3 -> 7", "3 -> 6").format(RIGHT)) == (2.0, 1.0)
    assert single.done and single.success and single.role_success == {"coder": True}
