"""Environment variables: those that the documentation lists, and those that Troupe sets for its own processes."""

import re

from tests.architecture.source import ROOT

INTERNAL = {
    "TROUPE_BUNDLED_RAY",
    "TROUPE_PREFORK",
    "TROUPE_SERVED",
    "TROUPE_PG_BINARIES",
    "TROUPE_PREPARED",
    "TROUPE_PUBLISHED_PORT",
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


def documented_variables(section: str = "") -> set[str]:
    """The first cells of the tables of docs/reference/configuration.md, or of one of its sections."""
    page = (ROOT / "docs/reference/configuration.md").read_text()
    if section:
        page = page.split(f"\n### {section}\n")[1].split("\n### ")[0]
    return set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))


def container_variables() -> set[str]:
    """Those that the compose files take from docker/.env."""
    texts = [path.read_text() for path in (ROOT / "docker").glob("compose*.yaml")]
    return {name for text in texts for name in re.findall(r"\$\{([A-Z_]+)", text)}
