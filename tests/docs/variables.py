"""Environment variables: those that the documentation lists, and those that Troupe sets for its own processes."""

import re

from tests.architecture.source import ROOT

INTERNAL = {
    "TROUPE_BUNDLED_RAY",
    "TROUPE_PREFORK",
    "TROUPE_INGEST_TOKEN",
    "TROUPE_SERVED",
    "TROUPE_PG_BINARIES",
    "TROUPE_PREPARED",
    "TROUPE_STACK_ID",
    "TROUPE_STACK_PART",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
    "RAY_JOB_STOP_WAIT_TIME_S",
    "RAY_DEDUP_LOGS",
    "RAY_USAGE_STATS_ENABLED",
}
"""Not for users."""


def documented_variables() -> set[str]:
    """The first cells of the tables of docs/reference/configuration.md."""
    page = (ROOT / "docs/reference/configuration.md").read_text()
    return set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
