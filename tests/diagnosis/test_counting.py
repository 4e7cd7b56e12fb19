"""The counts of the page of findings, and one planted fault through a whole run."""

from pathlib import Path

import pytest

from tests.benchmarks.preset_health import Course
from tests.diagnosis.counting import Judged, interval, judged
from tests.diagnosis.recording import record
from tests.diagnosis.sabotage import CASES
from webapp.health.rules import RULES
from webapp.health.services import Level


def test_intervals_are_wilson_s() -> None:
    """(8 + 1.96² / 2) / (10 + 1.96²) ± 1.96 · √(8 · 2 / 10 + 1.96² / 4) / (10 + 1.96²)."""
    assert interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert interval(0, 0) == (0.0, 1.0)


def test_a_finding_names_a_fault_if_rule_and_role_are_right() -> None:
    keys = ("groups/planner/too_hard", "groups/executor/too_hard", "policy/planner/kl")
    rules = ("too_hard", "too_hard", "kl_blow_up")
    found = [Course(rule, key, [5], Level.WARNING, 2.0, "") for rule, key in zip(rules, keys, strict=True)]
    assert Judged("ignored_role", 1, 20, found).right() == found[:1]


def test_every_fault_has_rules_that_exist() -> None:
    assert all(case.names and case.names <= set(RULES) for case in CASES.values())


@pytest.mark.extended
def test_a_planted_fault_is_named(tmp_path: Path) -> None:
    record(tmp_path, "truncated", 1)
    run = judged(tmp_path, "truncated", 1)
    assert run is not None and run.right()
