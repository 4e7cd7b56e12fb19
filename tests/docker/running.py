"""The server in the containers, by its REST API, and what must be there of a run at its end."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx

CURVE = "train/return"


class CheckFailed(Exception):
    """A check failed; the message says which, for the person who started it."""


class Server:
    """Patient with a server that is being restarted: questions are asked again, changes are not."""

    OVER = ("finished", "failed", "stopped", "cancelled")
    """States of runs and short jobs that have ended."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(timeout=60, trust_env=False)

    def take_token(self, local: str) -> None:
        """The owner's token, from the text of local.json."""
        self._http.headers["Authorization"] = f"Bearer {json.loads(local)['token']}"

    def ready(self) -> bool:
        """Whether every part is well, those too without which pages are served."""
        try:
            parts = self._http.get(f"{self.url}/readyz").json()["parts"]
        except (httpx.HTTPError, ValueError, KeyError):
            return False
        return set(parts.values()) == {"ok"}

    def get(self, path: str) -> dict[str, Any]:
        """Raises CheckFailed where the answer is no 200."""
        try:
            answer = self._http.get(path if path.startswith("http") else self.url + path)
        except httpx.HTTPError as error:
            raise CheckFailed(f"GET {path}: {error}") from error
        if answer.status_code != 200:
            raise CheckFailed(f"GET {path}: {answer.status_code} {answer.text[:300]}")
        return dict(answer.json())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Raises CheckFailed where nothing was made."""
        answer = self._http.post(self.url + path, json=body)
        if answer.status_code != 201:
            raise CheckFailed(f"POST {path}: {answer.status_code} {answer.text[:300]}")
        return dict(answer.json())

    def run(self, run: str) -> dict[str, Any]:
        """A run; a state "unknown" while the server does not answer."""
        try:
            return self.get(f"/api/v1/runs/{run}/")
        except CheckFailed:
            return {"state": "unknown", "iteration": -1, "attempts": [], "reason": ""}

    def job(self, job: str) -> dict[str, Any]:
        """A short job; a state "unknown" while the server does not answer."""
        try:
            return self.get(f"/api/v1/jobs/{job}/")
        except CheckFailed:
            return {"state": "unknown", "message": ""}

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """All rows of a list that comes in pages."""
        page: str | None = path
        while page:
            answer = self.get(page)
            yield from answer["results"]
            page = answer.get("next")


def check_whole(server: Server, run: str, iterations: int) -> Iterator[str]:
    """Say what was found of a finished run. Raises CheckFailed where points or transcripts are missing or doubled."""
    points = server.get(f"/api/v1/runs/{run}/series/?keys={CURVE}&points=10000")["series"][CURVE]
    yield curve_of(list(zip(points["attempts"], points["steps"], strict=True)), iterations)
    transcripts = Counter[int]()
    for row in server.rows(f"/api/v1/runs/{run}/episodes/?kind=train&limit=100"):
        transcripts[row["iteration"]] += 1
        first = transcripts[row["iteration"]] == 1
        if first and not server.get(f"/api/v1/episodes/{row['id']}/")["turns"]:
            raise CheckFailed(f"the transcript of episode {row['id']} has no turns")
    if without := sorted(set(range(1, iterations + 1)) - set(transcripts)):
        raise CheckFailed(f"no transcript of the iterations {without}")
    yield f"{transcripts.total()} transcripts are listed over REST, one of every iteration was read whole"


def curve_of(points: list[tuple[int, int]], iterations: int) -> str:
    """Judge (attempt, iteration) of a curve: each attempt has its iterations once, and continues from its checkpoint.

    Raises CheckFailed otherwise.
    """
    double = [point for point, count in Counter(points).items() if count > 1]
    missing = sorted(set(range(1, iterations + 1)) - {step for _, step in points})
    if double or missing:
        raise CheckFailed(
            f"{CURVE}: iterations missing {missing}, stored twice (attempt, iteration) {double}"
        )
    steps = {
        attempt: sorted(step for of, step in points if of == attempt) for attempt in sorted(dict(points))
    }
    for attempt, own in steps.items():
        if own != list(range(own[0], own[-1] + 1)):
            raise CheckFailed(f"{CURVE}: attempt {attempt} has gaps: {own}")
    again = sum(max(0, first[-1] - second[0] + 1) for first, second in pairwise(steps.values()))
    parts = ", ".join(f"attempt {attempt}: {own[0]} to {own[-1]}" for attempt, own in steps.items())
    return f"{CURVE}: each of {iterations} iterations is there ({parts}; {again} played again after a lost attempt)"
