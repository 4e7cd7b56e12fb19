"""Do 1,000 concurrent writers lose anything, and how fast does the rollout buffer take what they write?

    python -m tests.benchmarks.rollout_buffer [--writers 1000] [--records 8]

Every writer is a connection of its own that writes records of a few kilobytes one after another, and asks again (with the
same uid) until it hears "success". A reader takes groups meanwhile and acknowledges them. Half-way the service is killed
and started again on the same port. Prints rates without and with the kill; every record must arrive exactly once.
"""

import argparse
import asyncio
import os
import resource
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.workers.rollout_buffer.serving import Service

GROUP = 4
TEXT = "the agent looked around and said something " * 50
"""About 2 kB."""


@dataclass
class Outcome:
    """What came of it."""

    written: set[str]
    """Uids that their writers were told are kept."""
    read: Counter[str]
    """Uids that the reader got."""
    seconds: float
    """Until the last writer was done."""
    retries: int
    """Requests that were made again: refused connections, broken ones, full buffers."""


class Connection:
    """HTTP/1.1 by hand: a thousand of httpx's connections would be slower than the service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: object) -> tuple[int, Any] | None:
        """Status and JSON; None where the connection was refused or broke."""
        try:
            return await self._post(path, orjson.dumps(body))
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _post(self, path: str, body: bytes) -> tuple[int, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._service.port, limit=2**24)
        reader, writer = self._streams
        head = (
            f"POST {path} HTTP/1.1\r\nHost: buffer\r\nAuthorization: Bearer {self._service.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length"))
        return int(lines[0].split()[1]), orjson.loads(await reader.readexactly(length))


async def play(service: Service, writers: int, each: int, *, kill: bool) -> Outcome:
    """Write and read at the same time. `writers` x `each` must be whole groups."""
    outcome = Outcome(set(), Counter(), 0.0, 0)
    began = time.perf_counter()
    reading = asyncio.create_task(_read(service, outcome, writers * each))
    crash = asyncio.create_task(_kill_half_way(service, outcome, writers * each)) if kill else None
    await asyncio.gather(*(_write(service, outcome, number, each) for number in range(writers)))
    outcome.seconds = time.perf_counter() - began
    if crash is not None:
        await crash
    await reading
    return outcome


async def _write(service: Service, outcome: Outcome, writer: int, each: int) -> None:
    connection = Connection(service)
    for number in range(each):
        uid = str(uuid.uuid4())
        record = {
            "uid": uid,
            "instance_id": f"i{(writer * each + number) // GROUP}",
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": TEXT}],
            "reward": float(number % 2),
            "extra_info": {"writer": writer},
        }
        while (answer := await connection.post("/buffer/write", record)) is None or answer[0] != 200:
            outcome.retries += 1
            await asyncio.sleep(0.05)
        outcome.written.add(uid)
    connection.close()


async def _read(service: Service, outcome: Outcome, wanted: int) -> None:
    connection, delivery = Connection(service), 0
    while outcome.read.total() < wanted:
        answer = await connection.post("/get_rollout_data", {"delivery": delivery, "batch_size": 1000})
        data = answer[1]["data"] if answer is not None else {"data": []}
        if data["data"]:
            delivery = data["meta_info"]["delivery"]
            outcome.read.update(record["uid"] for record in data["data"])
        else:
            await asyncio.sleep(0.05)
    connection.close()


async def _kill_half_way(service: Service, outcome: Outcome, wanted: int) -> None:
    while len(outcome.written) < wanted // 2:
        await asyncio.sleep(0.005)
    await asyncio.to_thread(service.kill)
    await asyncio.to_thread(service.start, service.port)


def open_files() -> None:
    """A thousand connections need as many files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=int, default=1000)
    parser.add_argument("--records", type=int, default=8, help="per writer")
    arguments = parser.parse_args()
    open_files()
    os.environ["TROUPE_BUFFER_TOKEN"] = "benchmark"
    for kill in (False, True):
        with tempfile.TemporaryDirectory() as home:
            service = Service(Path(home), "--group-size", str(GROUP)).start()
            outcome = asyncio.run(play(service, arguments.writers, arguments.records, kill=kill))
            service.stop()
        count = arguments.writers * arguments.records
        lost = len(outcome.written - outcome.read.keys())
        twice = sum(times > 1 for times in outcome.read.values())
        print(
            f"{'killed half-way' if kill else 'undisturbed':16} {arguments.writers} writers, {count} records: "
            f"{count / outcome.seconds:,.0f} records/s, {outcome.retries} asked again, {lost} lost, {twice} twice"
        )


if __name__ == "__main__":
    main()
