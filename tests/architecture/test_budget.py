"""Line budgets: a package that grows beyond its budget needs a deletion, or another budget with the reason in the commit."""

from collections import Counter
from pathlib import Path

from tests.architecture.source import PACKAGES, ROOT

BUDGET = {
    "training_core": 1290,
    "training_core/algorithms": 1210,
    "training_core/config": 3700,
    "training_core/llm": 20,
    "training_core/llm/agents": 1580,
    "training_core/llm/base_models": 1170,
    "training_core/llm/datasets": 600,
    "training_core/llm/environments": 4430,
    "training_core/llm/external": 700,
    "training_core/llm/generation": 2570,
    "training_core/llm/learning": 3600,
    "training_core/llm/models": 1790,
    "training_core/llm/rewards": 1495,
    "training_core/llm/rollout_workflows": 1240,
    "training_core/llm/serving": 410,
    "training_core/llm/workflows": 1410,
    "training_core/loggers": 380,
    "training_core/marl": 7810,
    "training_core/sandbox": 710,
    "troupe_client": 677,
    "troupe_client/bundles": 293,
    "troupe_client/cli": 4530,
    "troupe_client/documents": 2810,
    "troupe_client/mcp": 378,
    "troupe_client/reporting": 3090,
    "webapp/accounts": 1380,
    "webapp/administration": 270,
    "webapp/agents": 300,
    "webapp/api": 470,
    "webapp/artifacts": 1050,
    "webapp/checkpoints": 795,
    "webapp/cluster": 250,
    "webapp/common": 1750,
    "webapp/compare": 2040,
    "webapp/config": 400,
    "webapp/documents": 547,
    "webapp/experiments": 2910,
    "webapp/health": 1180,
    "webapp/ingest": 680,
    "webapp/jobs": 1050,
    "webapp/live": 1050,
    "webapp/media": 380,
    "webapp/metrics": 2426,
    "webapp/mlflow": 980,
    "webapp/notifications": 1010,
    "webapp/provenance": 310,
    "webapp/quotas": 330,
    "webapp/reconciliation": 390,
    "webapp/reports": 890,
    "webapp/run_pages": 1700,
    "webapp/run_table": 1451,
    "webapp/runs": 1510,
    "webapp/scheduling": 1450,
    "webapp/shares": 470,
    "webapp/site": 650,
    "webapp/stack": 2130,
    "webapp/timeline": 940,
    "webapp/transcripts": 3100,
    "workers": 1020,
    "workers/actors": 3195,
    "workers/driver": 2430,
    "workers/gateway": 1510,
    "workers/jobs": 640,
    "workers/launchers": 970,
    "workers/preflight": 790,
    "workers/prefork": 470,
    "workers/provenance": 460,
    "workers/reporting": 380,
    "workers/rollout_buffer": 1620,
    "workers/sizing": 1130,
    "workers/storage": 400,
    "workers/telemetry": 1790,
}
"""Package -> maximum number of lines, without migrations. Modules directly in a layer count as the layer."""
LEAST, MOST_SMALL = 60, 119
"""Modules below LEAST lines are entry points, models, URLs, or explain themselves: at most MOST_SMALL."""


def lines() -> dict[Path, int]:
    """Number of lines of every module that is not empty."""
    found = {
        path.relative_to(ROOT): path.read_bytes().count(b"\n")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    }
    return {path: count for path, count in found.items() if count}


def package_of(path: Path) -> str:
    """The longest package of the budget that has the module."""
    return next(str(parent) for parent in path.parents if str(parent) in BUDGET)


def test_no_package_exceeds_its_budget() -> None:
    used: Counter[str] = Counter()
    for path, count in lines().items():
        used[package_of(path)] += count
    assert {name: count for name, count in used.items() if count > BUDGET[name]} == {}
    assert set(used) == set(BUDGET), "a package of the budget is gone"


def test_few_modules_are_small() -> None:
    assert len([path for path, count in lines().items() if count < LEAST]) <= MOST_SMALL
