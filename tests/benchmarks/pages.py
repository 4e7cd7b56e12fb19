"""Requests, bytes and times of every kind of page in Chromium, with an empty cache at each visit.

    python -m tests.benchmarks.pages [--visits 5] [--only WORD] [--json]

A database for this program, the real web server, a new browser profile for each visit. 5 visits to each of 70 pages take 8 minutes on
two idle cores. Prints a table in Markdown, medians over the visits: requests; kB as sent; milliseconds from the start of the
navigation until the first paint and until the page is complete (loaded, requests answered, visible charts drawn); milliseconds of the
browser's main thread: in total, in scripts, in layout and styles. A figure above its bound (BOUNDS) has the sign !.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from django.conf import settings
from django.core.management import call_command
from django.test import Client, override_settings
from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks.web import logged_in  # sets Django up; imports of models follow
from tests.conftest import CHROMIUM, FLAGS
from tests.end_to_end.conftest import Server, run_make, tell
from tests.end_to_end.crawling import Crawl
from tests.end_to_end.seed import Story
from tests.end_to_end.test_browser_every_page import full_run, other_things
from tests.end_to_end.test_browser_weight import CHARTS, MOST_REQUESTS, OTHERS, Traffic
from webapp.accounts.models import User
from webapp.metrics.models import Series
from webapp.runs.models import Run

VISITS = 5
ITERATIONS = (100, 100_000)
"""Of the runs whose pages are measured in addition to one page of each kind."""
BOUNDS = {"requests": MOST_REQUESTS, "first paint ms": 300.0, "complete ms": 800.0}
COMPLETE_CHARTS = 1000.0
"""Milliseconds until a page with charts is complete."""
IN_SIGHT = """() => [...document.querySelectorAll('.chart .plot')].filter((plot) => {
  const box = plot.getBoundingClientRect();
  return box.height && box.bottom > 0 && box.top < innerHeight;
})"""
DRAWN = f"() => ({IN_SIGHT})().every((plot) => plot.querySelector('.main-svg') || plot.closest('.chart').querySelector('.empty'))"
TIMES = f"""() => {{
  const [page] = performance.getEntriesByType('navigation');
  const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0;
  const charts = performance.getEntriesByName('chart').map((mark) => mark.startTime);
  const seen = ({IN_SIGHT})().length;
  const ends = performance.getEntriesByType('resource').map((entry) => entry.responseEnd);
  const complete = Math.max(page.loadEventEnd, ...ends, ...charts.slice(0, seen));
  return {{paint, complete, charts: charts.length || Number('Plotly' in window)}};
}}"""
Row = dict[str, float]


def main() -> None:
    """Measure the pages, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--visits", type=int, default=VISITS)
    parser.add_argument("--only", default="", help="measure the pages whose name contains this text")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with serving() as (server, browser, cookies, addresses):
        for name, address in addresses.items():
            if options.only in name:
                rows[name] = measured(browser, server.url + address, cookies, options.visits)
                sys.stderr.write(f"{name}: {rows[name]}\n")
    sys.stdout.write(json.dumps(rows, indent=1) if options.json else "\n".join(table(rows)))
    sys.stdout.write("\n")


@contextmanager
def serving() -> Iterator[tuple[Server, Browser, list[Any], dict[str, str]]]:
    """A filled database behind the web server, Chromium, the cookies of a person, and the addresses of the pages by name."""
    with ExitStack() as ends:
        client = ends.enter_context(logged_in())
        static = Path(tempfile.mkdtemp(prefix="troupe-static-"))
        ends.callback(shutil.rmtree, static, ignore_errors=True)
        with override_settings(STATIC_ROOT=str(static)):
            call_command("collectstatic", interactive=False, verbosity=0)
        runs = fill(User.objects.get())
        server = Server(static)
        ends.callback(server.close)
        server.start()
        browser = ends.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        ends.callback(browser.close)
        cookies = [session_cookie(client, server.url)]
        yield server, browser, cookies, addresses_of(browser, server.url, cookies, runs)


def fill(user: User) -> dict[str, Run]:
    """A run with something of everything, and a run of each number of ITERATIONS; by name."""
    full = full_run(user)
    other_things(user, full)
    runs = {"full": full}
    for count in ITERATIONS:
        name = f"{count} iterations"
        runs[name] = run_make(user, name, "finished")
        story = Story(runs[name].pk)
        tell(runs[name], story.opening())
        tell(runs[name], story.iterations(0, 100))
        if count > 100:
            lengthen(runs[name], count)
    return runs


def lengthen(run: Run, count: int) -> None:
    """Replace the points of every series by so many."""
    from tests.benchmarks.scale_fill import copy_points

    for number, series in enumerate(Series.objects.filter(run=run)):
        series.chunks.all().delete()
        values = np.sin(np.arange(count) / 1000) + np.random.default_rng(number).normal(0, 0.1, count)
        copy_points(series, values)
        Series.objects.filter(pk=series.pk).update(count=count, last_step=count, last_value=values[-1])
    run.refresh_from_db()
    run.iteration, run.iterations = count, count
    run.event_count = max(run.event_count, count)
    run.save(update_fields=["iteration", "iterations", "event_count"])


def session_cookie(client: Client, url: str) -> dict[str, str]:
    """The cookie of a client's session."""
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": url}


def addresses_of(browser: Browser, url: str, cookies: list[Any], runs: dict[str, Run]) -> dict[str, str]:
    """One address for each kind of page that links lead to, and the pages of long runs."""
    context = browser.new_context(base_url=url)
    context.add_cookies(cookies)
    pages = {}
    for name, run in runs.items():
        if name != "full":
            pages |= {
                f"run of {name}: {tab or 'overview/'}": f"/runs/{run.pk}/{tab}" for tab in ("", "curves/")
            }
    full = runs["full"].pk
    crawl = Kinds(context.new_page()).walk(f"/compare/?runs={','.join(run.pk for run in runs.values())}")
    crawl.walk(f"/runs/{full}/").walk("/runs/")
    context.close()
    if crawl.faults:
        raise ValueError("\n".join(crawl.faults))
    return pages | {kind: address.removeprefix(url) for kind, address in crawl.seen.items()}


class Kinds(Crawl):
    """A crawl that only collects an address of each kind."""

    def _look(self, kind: str, address: str) -> None:
        """Look for no faults."""


def measured(browser: Browser, address: str, cookies: list[Any], visits: int) -> Row:
    """Medians over visits, each with an empty cache. The first visit is not counted: the server's caches fill."""
    rows = [visit(browser, address, cookies) for _ in range(visits + 1)][1:]
    return {name: median(row[name] for row in rows) for name in rows[0]}


def visit(browser: Browser, address: str, cookies: list[Any]) -> Row:
    """Figures of one visit in a new profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.add_cookies(cookies)
    try:
        page = context.new_page()
        traffic = Traffic()
        traffic.watch(page)
        return _figures(page, traffic, address)
    finally:
        context.close()


def _figures(page: Page, traffic: Traffic, address: str) -> Row:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(address, wait_until="load", timeout=60_000)
    page.wait_for_function(DRAWN, timeout=60_000)
    page.wait_for_load_state("networkidle")
    page.wait_for_function(DRAWN, timeout=60_000)
    times = page.evaluate(TIMES)
    spent = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
    return {
        "requests": len(traffic.sizes),
        "kB": sum(traffic.sizes.values()) / 1e3,
        "first paint ms": times["paint"],
        "complete ms": times["complete"],
        "main thread ms": spent["TaskDuration"] * 1e3,
        "scripts ms": spent["ScriptDuration"] * 1e3,
        "layout ms": (spent["LayoutDuration"] + spent["RecalcStyleDuration"]) * 1e3,
        "charts": times["charts"],
    }


def table(rows: dict[str, Row]) -> list[str]:
    """Lines of the table in Markdown."""
    heads = [name for name in next(iter(rows.values()), {}) if name != "charts"]
    lines = [f"| page | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for page, row in rows.items():
        cells = [f"{row[name]:.0f}{' !' * (row[name] > bound(name, row))}" for name in heads]
        lines.append(f"| {page} | {' | '.join(cells)} |")
    return lines


def bound(name: str, row: Row) -> float:
    """The bound of a figure; pages with charts have other ones."""
    if name == "kB":
        return (CHARTS if row["charts"] else OTHERS) / 1e3
    if name == "complete ms" and row["charts"]:
        return COMPLETE_CHARTS
    return BOUNDS.get(name, float("inf"))


if __name__ == "__main__":
    main()
