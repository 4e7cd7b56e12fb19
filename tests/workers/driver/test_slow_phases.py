"""Phases that take much longer than usual are found by their median."""

from workers.driver.run_events import SlowPhases


def test_a_phase_is_slow_against_its_own_median() -> None:
    phases = SlowPhases()
    assert [phases.line(3, "rollout", seconds) for seconds in (40.0, 2.0, 2.0, 3.0, 2.0)] == [""] * 5, (
        "too few to compare"
    )
    assert phases.line(6, "update", 40.0) == ""
    assert phases.line(6, "rollout", 5.0) == ""
    assert phases.line(7, "rollout", 9.5) == "slow rollout in iteration 7: 9.5 s, its median is 2.5 s"
    assert phases.line(8, "sync", 0.01) == ""
    for _ in range(5):
        phases.line(8, "sync", 0.01)
    assert phases.line(9, "sync", 0.9) == "", "less than a second does not matter"
