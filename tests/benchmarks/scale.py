"""Server time, queries and bytes of every page at chosen sizes of the database; nothing here fails.

    python -m tests.benchmarks.scale [--runs 1000] [--episodes 100000] [--keys 1000] [--points 10000] [--compare] [--only WORD]

Fills a database of its own (a temporary folder, which TMPDIR chooses) and asks Django's test client for each address: once to warm
up, then five times. Prints a table in Markdown: median and longest milliseconds, CPU milliseconds of this process (the web side
without Postgres), database queries, kB after gzip. With --compare the same at a hundredth of the sizes, and the ratio of both medians.
"""

import argparse
import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

from tests.conftest import pytest_unconfigure, running_servers

ROUNDS = 5
SHARE = 100
"""Ratio of the two sizes that are compared."""
SIZES = {"runs": 1000, "episodes": 100_000, "keys": 1000, "points": 10_000}


def main(words: list[str] | None = None) -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--compare", action="store_true", help="measure a hundredth of the sizes too")
    parser.add_argument("--only", default="", help="measure the addresses whose name contains this text")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--explain", type=float, default=0, help="print the plans of queries that take more milliseconds"
    )
    arguments = parser.parse_args(words)
    sizes = {name: getattr(arguments, name) for name in SIZES}
    if arguments.json:
        sys.stdout.write(json.dumps(_measured(sizes, arguments.only, arguments.explain)) + "\n")
        return
    small = (
        _child({name: max(1, size // SHARE) for name, size in sizes.items()}, arguments)
        if arguments.compare
        else {}
    )
    sys.stdout.write("\n".join(table(_child(sizes, arguments), small)) + "\n")


def _child(sizes: dict[str, int], arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own, with a database of its own."""
    options = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    options += ["--only", arguments.only, "--explain", str(arguments.explain), "--json"]
    done = subprocess.run([sys.executable, "-m", "tests.benchmarks.scale", *options], check=True, stdout=subprocess.PIPE)  # fmt: skip
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def table(measured: dict[str, Any], small: dict[str, Any]) -> list[str]:
    """Return the lines of the table."""
    heads = ["address", "median ms", "longest ms", "CPU ms", "queries", "kB"]
    heads += [f"ms at 1/{SHARE}", "ratio"] if small else []
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for name, row in measured.items():
        times = [f"{row[cost]:.0f}" for cost in ("median", "longest", "cpu")]
        cells = [name, *times, row["queries"], f"{row['bytes'] / 1000:.0f}"]
        if row["status"] != 200:
            cells[0] += f" (status {row['status']})"
        if small:
            before = small[name]["median"] if name in small else None
            cells += [f"{before:.0f}", f"{row['median'] / before:.1f}"] if before else ["", ""]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _measured(sizes: dict[str, int], only: str, explain: float) -> dict[str, Any]:
    try:
        with running_servers(fsync="off", synchronous_commit="off", max_wal_size="8GB", autovacuum="off"):
            return _rows(sizes, only, explain)
    finally:
        pytest_unconfigure()


def _rows(sizes: dict[str, int], only: str, explain: float) -> dict[str, Any]:
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client
    from django.test.utils import setup_test_environment

    from tests.benchmarks.scale_fill import Sizes, fill
    from tests.benchmarks.scale_pages import addresses
    from webapp.accounts.models import User

    setup_test_environment()
    call_command("migrate", interactive=False, verbosity=0)
    began = time.perf_counter()
    fill(Sizes(**sizes))
    sys.stderr.write(f"filled in {time.perf_counter() - began:.0f} s\n")
    client = Client(HTTP_ACCEPT_ENCODING="gzip")
    client.force_login(User.objects.get())
    rows = {}
    for name, path, query in addresses(sizes["runs"]):
        if only in name:
            rows[name] = _row(client, path, query, explain)
            sys.stderr.write(f"{name}: {rows[name]['median']:.0f} ms, {rows[name]['queries']} queries\n")
    return rows


def _row(client: Any, path: str, query: dict[str, str], explain: float) -> dict[str, Any]:
    """Figures of one address."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        answer = client.get(path, query)
    size, count = len(answer.content), len(asked)
    if explain:
        _plans(asked.captured_queries, explain)
    costs, cpu = [], []
    for _ in range(ROUNDS):
        wall, used = time.perf_counter(), time.process_time()
        client.get(path, query)
        costs.append((time.perf_counter() - wall) * 1e3)
        cpu.append((time.process_time() - used) * 1e3)
        if sum(costs) > 20_000:
            break
    return {
        "median": median(costs),
        "longest": max(costs),
        "cpu": median(cpu),
        "queries": count,
        "bytes": size,
        "status": answer.status_code,
    }


def _plans(queries: list[dict[str, str]], least: float) -> None:
    """Print the plans of slow queries to standard error."""
    from django.db import connection

    for query in queries:
        if float(query["time"]) * 1e3 >= least and query["sql"].startswith(("SELECT", "\nSELECT")):
            with connection.cursor() as cursor:
                cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + query["sql"].replace("%", "%%"), [])
                plan = "\n  ".join(row[0] for row in cursor.fetchall())
            sys.stderr.write(f"  {query['time']} s: {query['sql'][:600]}\n  {plan}\n")


if __name__ == "__main__":
    main()
