"""The short job that checks a config where its run would run."""

from dataclasses import asdict
from typing import Any

from training_core.config.kinds import AnyConfig
from workers.checks.registry import checks_of
from workers.checks.results import failed
from workers.checks.shared import ClusterDevices, Surroundings
from workers.jobs.context import JobContext


def check(context: JobContext[AnyConfig]) -> dict[str, Any]:
    """Result: `checks`, a list of {"name", "state", "text", "remedy"}, and `failed`, whether a launch would fail."""
    devices = context.parameters.get("cluster")
    cluster = ClusterDevices.read(devices) if devices else None
    checks = checks_of(context.config, Surroundings(context.home, cluster=cluster), context.progress)
    return {"checks": [asdict(item) for item in checks], "failed": failed(checks)}
