"""The statistics and the files of the short set of benchmarks, by hand-made numbers."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import exp, log, sqrt
from pathlib import Path

import pytest

from tests.benchmarks import bench
from tests.benchmarks.intervals import Spread, paired_ratios, ratio_interval, spread
from tests.benchmarks.profile_runs import REST, START, counted
from tests.benchmarks.registry import SHORT_SET
from tests.benchmarks.results import (
    ROOT,
    Benchmark,
    Ratio,
    Side,
    machine_facts,
    make_result,
    printed,
    read_result,
    take_turns,
    write_result,
)

ORDER: list[str] = []


def side(name: str, values: Iterator[float]) -> Side:
    """A side that notes its turns."""

    def turn() -> Mapping[str, float]:
        ORDER.append(name)
        return {name: next(values)}

    return turn


def toy(unit: str = "s") -> Benchmark:
    """Two sides, of which the first is another project's."""

    @contextmanager
    def open_sides() -> Iterator[Mapping[str, Side]]:
        yield {"theirs": side("theirs", iter([4.0, 6.0, 6.0])), "ours": side("ours", iter([2.0, 2.0, 4.0]))}

    return Benchmark(
        about="a toy",
        units={"theirs": unit, "ours": unit},
        open_sides=open_sides,
        ratios=(Ratio("theirs / ours", "theirs", "ours"),),
        settings={"size": 3},
        foreign=frozenset({"theirs"}),
    )


def test_a_spread_has_median_lowest_and_highest() -> None:
    assert spread([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)


def test_ratios_are_of_pairs() -> None:
    assert paired_ratios([4.0, 6.0], [2.0, 2.0]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="not pairs"):
        paired_ratios([4.0], [2.0, 2.0])
    with pytest.raises(ValueError, match="positive"):
        paired_ratios([4.0], [0.0])


def test_the_interval_of_a_ratio_is_students_over_logarithms() -> None:
    """Ratios 1, 2, 4: logarithms 0, log 2, 2 log 2; deviation log 2; quantile 4.3027 with 2 degrees of freedom."""
    measured = ratio_interval([1.0, 4.0, 12.0], [1.0, 2.0, 3.0])
    half = 4.302653 * log(2) / sqrt(3)
    assert measured.ratio == pytest.approx(2.0)
    assert (measured.low, measured.high) == pytest.approx((exp(log(2) - half), exp(log(2) + half)), rel=1e-6)
    assert not measured.differs


def test_equal_ratios_differ_from_one_without_doubt() -> None:
    measured = ratio_interval([2.2, 4.4, 1.1], [2.0, 4.0, 1.0])
    assert measured.ratio == pytest.approx(1.1) and measured.differs


def test_one_pair_has_no_interval() -> None:
    measured = ratio_interval([3.0], [2.0])
    assert (measured.ratio, measured.low, measured.high) == (pytest.approx(1.5), None, None)
    assert not measured.differs


def test_sides_take_turns() -> None:
    ORDER.clear()
    assert take_turns(toy(), 3) == {"theirs": [4.0, 6.0, 6.0], "ours": [2.0, 2.0, 4.0]}
    assert ORDER == ["theirs", "ours"] * 3
    assert take_turns(toy(), 2, own=True) == {"ours": [2.0, 2.0]}


def test_a_figure_without_a_unit_is_an_error() -> None:
    benchmark = toy()
    with pytest.raises(ValueError, match="theirs"):
        take_turns(Benchmark("a toy", {"ours": "s"}, benchmark.open_sides), 1)


def test_a_result_states_machine_settings_spread_and_ratios(tmp_path: Path) -> None:
    result = make_result("toy", toy(), take_turns(toy(), 3), machine_facts())
    write_result(tmp_path, "toy", result)
    stored = read_result(tmp_path, "toy")
    assert stored == json.loads(json.dumps(result))
    assert {
        "benchmark",
        "date",
        "commit",
        "dirty",
        "cpu",
        "cores",
        "load",
        "settings",
        "repeats",
    } <= stored.keys()
    assert stored["figures"]["theirs"] == {
        "unit": "s", "median": 6.0, "lowest": 4.0, "highest": 6.0, "values": [4.0, 6.0, 6.0],
    }  # fmt: skip
    assert stored["ratios"]["theirs / ours"] == {
        "numerator": "theirs", "denominator": "ours", "median": 2.0, "lowest": 1.5, "highest": 3.0,
    }  # fmt: skip
    assert "theirs / ours: 2.00 × (1.50 to 3.00)" in printed(result)
    assert read_result(tmp_path, "other") is None


def test_a_tree_is_dirty_by_its_files_and_not_by_results(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "tests/benchmarks/results").mkdir(parents=True)
    (tmp_path / "code.py").write_text("1\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "tests/benchmarks/results/toy.json").write_text("{}\n")
    facts = machine_facts(tmp_path)
    assert len(facts["commit"]) == 40 and not facts["dirty"]
    (tmp_path / "code.py").write_text("2\n")
    assert machine_facts(tmp_path)["dirty"]


@pytest.mark.parametrize("name", SHORT_SET)
def test_the_short_set_names_functions_that_exist(name: str) -> None:
    """Modules of the web side start servers when they are opened, and set addresses when they are imported: not here."""
    module, _, function = SHORT_SET[name].partition(":")
    path = ROOT / f"{module.replace('.', '/')}.py"
    assert f"def {function}(" in path.read_text()


def test_bench_refuses_unknown_names_and_trials_among_tracked_results() -> None:
    with pytest.raises(SystemExit, match="no such benchmark: nothing; benchmarks are llm_step"):
        bench.main(["nothing"])
    for words in (["--small"], ["--repeats", "4"]):
        with pytest.raises(SystemExit, match="at least 5 repeats and the full settings.*omit --record"):
            bench.main([*words, "--record"])


def test_a_benchmark_writes_its_file_from_its_own_process(tmp_path: Path) -> None:
    assert bench.main(["imports", "--small", "--repeats", "2", "--out", str(tmp_path)]) == 0
    result = read_result(tmp_path, "imports")
    assert result and result["small"] and result["repeats"] == 2
    assert all(row["median"] > 0 for row in result["figures"].values())
    assert result["load"].keys() == {"start", "end", "before"}


def test_measuring_refuses_the_code_of_another_checkout(tmp_path: Path) -> None:
    """The packages come from the folder in PYTHONPATH, and the program from another one."""
    command = "import sys; sys.path.insert(0, sys.argv[1]); from tests.benchmarks import measure; measure.check_origin('training_core')"
    (tmp_path / "training_core").mkdir()
    (tmp_path / "training_core" / "__init__.py").touch()
    answer = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 1 and f"set PYTHONPATH={ROOT}" in answer.stderr


def test_samples_count_for_the_first_part_that_matches() -> None:
    loop = "main (workers/run.py:3);update (training_core/llm/learning/learner.py:9)"
    parts, functions = counted(
        [
            f"{loop};_step (training_core/llm/learning/learner.py:5);backward (/x/torch/_tensor.py:3) 4",
            f"{loop};_loss (training_core/llm/learning/learner.py:6);matmul (/x/torch/nn/linear.py:2) 3",
            "main (workers/run.py:3);_play (workers/driver/evaluations.py:1);x (training_core/llm/generation/a.py:2) 2",
            "main (workers/run.py:3);pause (workers/x.py:1);sleep (/x/y.py:2) 1",
            "main (workers/run.py:3);Condition.wait (/usr/lib/threading.py:331) 50",
            " 6",
        ]
    )
    assert parts == {"backward": 4, "forward and loss": 3, "evaluation": 2, REST: 1, START: 6}
    assert functions[REST] == {"pause (workers/x.py)": 1}
    assert functions["backward"] == {"_step (training_core/llm/learning/learner.py)": 4}
