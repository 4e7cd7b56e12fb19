"""Times of pages for 50 people, without and beside 200 requests of strangers whose bodies never end.

    python -m tests.benchmarks.unfinished_bodies LOGIN_LINK

LOGIN_LINK: of a running server, from `manage.py login_link NAME`. Each person opens a page every ten seconds. Three rounds of 20 s, in
turns: 95th percentiles in ms, and the ratio of the medians of both kinds of rounds. The aim is a ratio of at most 1.5.
"""

import asyncio
import random
import sys
import time
from statistics import median, quantiles
from urllib.parse import urlsplit

import httpx

PEOPLE, BODIES, ROUNDS, SECONDS, EVERY = 50, 200, 3, 20.0, 10.0
PAGES = ("/runs/", "/experiments/new/", "/account/tokens/", "/reports/", "/cluster/")
HEAD = (
    "POST /account/login/ HTTP/1.1\r\nHost: {}\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nx"
)


async def person(client: httpx.AsyncClient, until: float, times: list[float]) -> None:
    await asyncio.sleep(random.uniform(0, EVERY))
    while (begun := time.monotonic()) < until:
        answer = await client.get(random.choice(PAGES))
        assert answer.status_code == 200, answer.status_code
        times.append(1000 * (time.monotonic() - begun))
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - begun)))


async def round_of(client: httpx.AsyncClient, host: str, bodies: int) -> float:
    """The 95th percentile."""
    name, _, port = host.partition(":")
    open_ones = [await asyncio.open_connection(name, int(port or 80)) for _ in range(bodies)]
    for _, writer in open_ones:
        writer.write(HEAD.format(host).encode())
    times: list[float] = []
    until = time.monotonic() + SECONDS
    await asyncio.gather(*(person(client, until, times) for _ in range(PEOPLE)))
    for _, writer in open_ones:
        writer.close()
    p95 = quantiles(times, n=20)[-1]
    print(
        f"{bodies:4} unfinished bodies: {len(times)} pages, median {median(times):.0f} ms, 95 % {p95:.0f} ms"
    )
    return p95


async def main(link: str) -> None:
    where = urlsplit(link)
    url = f"{where.scheme}://{where.netloc}"
    limits = httpx.Limits(max_connections=PEOPLE, max_keepalive_connections=PEOPLE)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as client:
        await client.get(link)
        for page in PAGES:
            await client.get(page)
        found = {number: [0.0][:0] for number in (0, BODIES)}
        for _ in range(ROUNDS):
            for bodies, figures in found.items():
                figures.append(await round_of(client, where.netloc, bodies))
    print(f"ratio {median(found[BODIES]) / median(found[0]):.2f}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
