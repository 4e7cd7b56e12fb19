"""Memory of the web process after a day's traffic, and of a browser tab that watches a run for an hour; nothing here fails.

    python -m tests.benchmarks.memory [--requests 20000] [--updates 36000] [--only server|tab] [--runs 1000] [--episodes 100000]

About 15 minutes on two idle cores; `--requests 2000 --updates 6000 --runs 100 --episodes 5000` takes 3.

Fills a database of its own (tests.benchmarks.scale_fill) and starts the stack's web process on it. The requests take turns over all
addresses of tests.benchmarks.scale_pages: 40 % pages of runs, 20 % the runs table, 20 % searches, 20 % API and others, in four
threads. Every tenth request also opens two websockets, of the list of runs and of a run; the oldest of more than 20 are closed. Prints the
PSS of the process after the first hundred requests and then twenty times. The tab is Chromium on the overview of a run that gets updates
of twelve metrics as fast as the server stores them. Its heap is measured after garbage collection, after a sixth of the updates
and at the end.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psutil

from tests.conftest import CHROMIUM, FAST, pytest_unconfigure, running_servers

AIM_SERVER, AIM_TAB = 400, 20
"""MiB: of the web process, and of the growth of the tab."""
THREADS, LOOKS = 4, 20
SHARES = {"run": 40, "table": 20, "search": 20, "other": 20}
METRICS = ("train/return", "train/success", "eval/success", "eval/return", "time/update", "rollout/truncated")


def main() -> None:
    """Fill, replay, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, size in {"requests": 20_000, "updates": 36_000, "runs": 1000, "episodes": 100_000, "keys": 20_000}.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--only", choices=("server", "tab"), default="")
    options = parser.parse_args()
    try:
        with running_servers(**FAST):
            _run(options)
    finally:
        pytest_unconfigure()


def _run(options: argparse.Namespace) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from tests.benchmarks.scale_fill import Sizes, fill
    from webapp.accounts.models import User

    call_command("migrate", interactive=False, verbosity=0)
    fill(Sizes(options.runs, options.episodes, options.keys, 10_000))
    client = Client()
    client.force_login(User.objects.get())
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    with tempfile.TemporaryDirectory() as static, _server(static) as (url, process):
        if options.only != "tab":
            _traffic(url, cookie, process, options)
        if options.only != "server":
            _tab(url, cookie, options.updates)


@contextmanager
def _server(static: str) -> Iterator[tuple[str, psutil.Process]]:
    """The web process of the stack."""
    from django.core.management import call_command
    from django.test import override_settings

    from webapp.stack.servers import free_ports

    with override_settings(STATIC_ROOT=static):
        call_command("collectstatic", interactive=False, verbosity=0)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    words = [sys.executable, "-m", "webapp.stack.serve", address]
    with subprocess.Popen(words, env=os.environ | {"TROUPE_STATIC_ROOT": static}) as process:
        try:
            _wait(f"http://{address}/healthz")
            yield f"http://{address}", psutil.Process(process.pid)
        finally:
            process.terminate()


def _wait(address: str) -> None:
    import httpx

    while True:
        try:
            httpx.get(address, trust_env=False)
            return
        except httpx.HTTPError:
            time.sleep(0.1)


def _memory(process: psutil.Process) -> float:
    """PSS in MiB."""
    return float(process.memory_full_info().pss) / 2**20


def _traffic(url: str, cookie: str, process: psutil.Process, options: argparse.Namespace) -> None:
    """Send the requests in LOOKS parts and print the memory after each."""
    mix = _mix(options)
    _send(url, cookie, itertools.islice(mix, 100), False)
    first = _memory(process)
    sys.stdout.write(f"web process after 100 requests: {first:.0f} MiB PSS\n")
    part = max(1, options.requests // LOOKS)
    for number in range(LOOKS):
        statuses = _send(url, cookie, itertools.islice(mix, part), True)
        sys.stdout.write(
            f"after {(number + 1) * part} requests: {_memory(process):.0f} MiB; statuses {statuses}\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"aim: below {AIM_SERVER} MiB; grown by {_memory(process) - first:.0f} MiB\n")


def _mix(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield addresses without end, by SHARES."""
    from tests.benchmarks.scale_pages import addresses

    kinds: dict[str, list[tuple[str, dict[str, str]]]] = {kind: [] for kind in SHARES}
    for name, path, query in addresses(options.runs):
        kind = "table" if name.startswith("runs table") else "search" if "search" in name else "run"
        kinds[kind if path.startswith("/runs/") else "other"].append((path, query))
    draw = random.Random(0)
    while True:
        yield draw.choice(kinds[draw.choices(list(SHARES), list(SHARES.values()))[0]])


def _send(
    url: str, cookie: str, requests: Iterator[tuple[str, dict[str, str]]], sockets: bool
) -> dict[int, int]:
    """Send requests in THREADS threads, with websockets in between; returns numbers by status."""
    import httpx

    statuses: dict[int, int] = {}
    chosen = list(requests)

    def some(own: list[tuple[str, dict[str, str]]]) -> list[int]:
        with httpx.Client(base_url=url, headers={"Cookie": cookie}, trust_env=False, timeout=120) as client:
            return [client.get(path, params=query).status_code for path, query in own]

    with ThreadPoolExecutor(THREADS + 1) as pool:
        watching = pool.submit(asyncio.run, _sockets(url, cookie, len(chosen) // 10 if sockets else 0))
        for answers in pool.map(some, [chosen[number::THREADS] for number in range(THREADS)]):
            for status in answers:
                statuses[status] = statuses.get(status, 0) + 1
        watching.result()
    return statuses


async def _sockets(url: str, cookie: str, count: int) -> None:
    """Open two websockets `count` times, with ten pairs at a time."""
    import websockets

    opened: list[Any] = []
    for number in range(count):
        for path in ("/ws/runs/", f"/ws/runs/{('fixed', 'large', 'wide', 'long')[number % 4]}/"):
            headers = {"Cookie": cookie, "Origin": url}
            socket = await websockets.connect(f"ws{url[4:]}{path}", additional_headers=headers, proxy=None)
            if path != "/ws/runs/":
                await socket.send(json.dumps({"cursor": 0}))
            opened.append(socket)
        while len(opened) > 20:
            await opened.pop(0).close()
    for socket in opened:
        await socket.close()


def _tab(url: str, cookie: str, updates: int) -> None:
    """Print the heap of a tab after a sixth of the updates and after all."""
    from playwright.sync_api import sync_playwright

    from webapp.ingest.services import batch_store
    from webapp.runs.models import Run

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright has an event loop in this thread
    Run.objects.filter(pk="fixed").update(state="running")
    policies = [
        f"policy/{name}/{metric}" for name in ("planner", "executor") for metric in ("kl", "entropy", "loss")
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 2000})
        page.set_extra_http_headers({"Cookie": cookie})
        name, _, value = cookie.partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": url}])
        page.goto(f"{url}/runs/fixed/")
        page.locator(".chart .scatterlayer .trace").first.wait_for(timeout=60_000)
        tools = page.context.new_cdp_session(page)
        tools.send("Performance.enable")
        facts: list[dict[str, float]] = []
        for number in range(1, updates + 1):
            values = {key: random.random() for key in [*METRICS, *policies]}
            event = {
                "run": "fixed", "attempt": 1, "producer": "tab", "seq": number, "time": 2e9 + number / 10, "type": "metrics",
                "step": 24 + number, "values": values,
            }  # fmt: skip
            batch_store("fixed", json.dumps(event).encode(), "")
            if number % 50 == 0:
                page.wait_for_timeout(1)  # the browser's messages are read
            if number % max(1, updates // 6) == 0:
                page.wait_for_timeout(3000)
                facts.append(_heap(tools))
                sys.stdout.write(f"tab after {number} updates: {facts[-1]}\n")
                sys.stdout.flush()
        grown = facts[-1]["heap MiB"] - facts[0]["heap MiB"]
        sys.stdout.write(f"tab: grown by {grown:.1f} MiB; aim: at most {AIM_TAB}\n")
        browser.close()


def _heap(tools: Any) -> dict[str, float]:
    """Heap in MiB after garbage collection, nodes and listeners."""
    for _ in range(2):
        tools.send("HeapProfiler.collectGarbage")
    metrics = {row["name"]: row["value"] for row in tools.send("Performance.getMetrics")["metrics"]}
    return {
        "heap MiB": round(metrics["JSHeapUsedSize"] / 2**20, 1),
        "nodes": metrics["Nodes"],
        "listeners": metrics["JSEventListeners"],
    }


if __name__ == "__main__":
    main()
