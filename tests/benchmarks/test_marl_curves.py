"""The arithmetic of the learning curves' tables and picture, by hand."""

from pathlib import Path

from tests.benchmarks.marl_curves import cell, picture, seconds, spread, steps, table, ticks, value
from tests.benchmarks.marl_learning import Curve, Point, read, write


def curve(seed: int, *returns: float) -> Curve:
    """Evaluations after 1, 2, … million steps and 10, 20, … CPU seconds."""
    points = [
        Point(number * 1_000_000, number * 12.0, number * 10.0, {"agents": greedy}, {"agents": greedy - 1})
        for number, greedy in enumerate(returns, start=1)
    ]
    return Curve("spread_mappo", seed, "mpe_simple_spread", points)


def test_a_return_between_evaluations_lies_on_a_straight_line() -> None:
    one = curve(0, -60.0, -40.0, -30.0)
    assert value(one, steps, 1.5) == -50.0
    assert value(one, seconds, 27.5) == -32.5
    assert value(one, seconds, 30.0, "sampled") == -31.0
    assert value(one, steps, 1.0) == -60.0
    assert value(one, steps, 0.5) is value(one, steps, 3.1) is None


def test_a_cell_needs_all_seeds() -> None:
    curves = [curve(0, -60.0, -40.0), curve(1, -64.0)]
    assert cell(curves, steps, 1.0) == "-62.00 ± 2.83 / -63.00"
    assert cell(curves, steps, 2.0) == ""
    lines = table({"spread_mappo": curves}, steps, (1.0, 2.0), "M steps").splitlines()
    assert lines[0] == "| preset | seeds | 1 M steps | 2 M steps |"
    assert lines[2] == "| `spread_mappo` | 2 | -62.00 ± 2.83 / -63.00 |  |"


def test_a_band_goes_from_the_worst_seed_to_the_best() -> None:
    rows = spread([curve(0, -60.0, -40.0), curve(1, -64.0, -50.0)], steps, 2.0)
    assert rows[0] == (1.0, -64.0, -62.0, -60.0)
    assert rows[-1] == (2.0, -50.0, -45.0, -40.0)
    drawn = picture({"spread_mappo": [curve(0, -60.0, -40.0)]}, [-45.0])
    assert drawn.count('fill-opacity="0.15"') == 2, "one band in each of both panels"
    assert "CPU seconds" in drawn and "nan" not in drawn


def test_ticks_are_round() -> None:
    assert ticks(0.0, 4.8) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert ticks(0.0, 309.0) == [0.0, 100.0, 200.0, 300.0]
    assert ticks(-58.0, -24.0) == [-50.0, -40.0, -30.0]


def test_a_curve_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = curve(2, -60.0, -40.5)
    write(kept, tmp_path)
    assert read(tmp_path / "spread_mappo-2.csv") == kept
