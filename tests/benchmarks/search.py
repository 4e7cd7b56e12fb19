"""Full-text search over many episodes: server time of the stream's page and of the API.

    python -m tests.benchmarks.search [--episodes 100000] [--repeats 5]

Rare and common words, phrases, beginnings, and filters; milliseconds of requests to the real views, on a real PostgreSQL, one
process. A quarter as many episodes of another run with the same words are in the same tables. The short set has 20,000 episodes.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.benchmarks.results import Benchmark, Side, run_program
from tests.benchmarks.scale_fill import WORDS
from tests.benchmarks.web import Client, connection, logged_in, request_side
from tests.end_to_end.seed import Story, encoded
from training_core.config.files import load_config
from webapp.accounts.models import Project, User
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run
from webapp.transcripts.models import Episode
from webapp.transcripts.words import run_word

EPISODES, SHORT, SMALL = 100_000, 20_000, 400
SENT = 1_000
"""Episodes that are sent through ingest; the others are copies of them."""
COPY = """
INSERT INTO transcripts_episode ({names})
SELECT {values} FROM transcripts_episode e, generate_series(1, %s) AS copy WHERE e.id = ANY(%s) ORDER BY copy, e.id
"""
BODIES = """
INSERT INTO transcripts_episodebody (episode_id, data, size, frames)
SELECT made.id, body.data, body.size, body.frames FROM transcripts_episode made
JOIN transcripts_episode told ON told.name = split_part(made.name, '+', 1) AND told.id = ANY(%s)
JOIN transcripts_episodebody body ON body.episode_id = told.id
WHERE made.name LIKE '%%+%%' AND made.run_id = told.run_id
"""


COMMON, MIDDLING, SELDOM = "right", WORDS[40], WORDS[-1]
QUERIES: dict[str, dict[str, Any]] = {
    "no words": {},
    "one episode has it": {"q": "needle"},
    "a rare word": {"q": SELDOM},
    "a middling word": {"q": MIDDLING},
    "a word in nearly all": {"q": COMMON},
    "a phrase": {"q": '"right right"'},
    "a phrase without a match": {"q": f'"{SELDOM} {MIDDLING} {SELDOM}"'},
    "a word without a match": {"q": "nobodysaidthis"},
    "a beginning": {"q": "alra1*"},
    "all but a word": {"q": f"right -{WORDS[0]}"},
    "two common words": {"q": "right left"},
    "common, by role and reward": {"q": COMMON, "role": "executor", "reward_min": "8"},
    "common, a reward without a match": {"q": COMMON, "reward_min": "1000"},
    "common, early iterations": {"q": COMMON, "iteration_max": "3"},
    "common, failed": {"q": COMMON, "outcome": "failed"},
    "common, version": {"q": COMMON, "policy": "planner", "version": "3"},
    "middling, unsolved, a role": {"q": MIDDLING, "outcome": "unsolved", "role": "planner"},
    "rare, evaluations": {"q": SELDOM, "kind": "eval"},
    "no words, a reward without a match": {"reward_min": "1000"},
    "no words, truncated": {"truncated": "true"},
}


def benchmark(*, small: bool = False, episodes: int = SHORT) -> Benchmark:
    """Each query to the page and to the API is a side."""
    count = SMALL if small else episodes
    return Benchmark(
        about=f"server time of a search over {count:,} episodes of a run",
        units={f"{name}, {where}": "ms" for name in QUERIES for where in ("page", "API")},
        open_sides=lambda: open_sides(count, min(SENT, count // 4)),
        settings={"episodes": count, "episodes of another run": count // 4},
    )


@contextmanager
def open_sides(episodes: int, sent: int) -> Iterator[Mapping[str, Side]]:
    """A database with the episodes of both runs."""
    with logged_in() as client:
        run, other = make_run("searched"), make_run("other")
        for filled, count in ((run, episodes), (other, episodes // 4)):
            send_episodes(filled, sent)
            copy_episodes(filled, count // sent - 1)
        hide_needle(run, run.episodes.order_by("pk")[episodes // 3])
        assert run.episodes.count() == episodes
        yield {
            f"{name}, {where}": side
            for name, query in QUERIES.items()
            for where, side in both(client, run, name, query)
        }


def both(client: Client, run: Run, name: str, query: dict[str, Any]) -> Iterator[tuple[str, Side]]:
    """The query to the page and to the API."""
    addresses = {"page": f"/runs/{run.pk}/transcripts/", "API": f"/api/v1/runs/{run.pk}/episodes/"}
    for where, address in addresses.items():
        yield where, request_side(client, f"{name}, {where}", address, query)


def hide_needle(run: Run, rare: Episode) -> None:
    """Give one episode a word that no other has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE transcripts_episode SET words = to_tsvector('simple', %s) WHERE id = %s",
            [f"{run_word(run.pk)} needle", rare.pk],
        )
        cursor.execute("VACUUM ANALYZE")


def send_episodes(run: Run, count: int) -> None:
    """Store episodes through ingest, with forty words of a vocabulary of 5,000 for each answer; the commonest are in most of them."""
    draw, story = random.Random(run.name), Story(run.pk)
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    batch_store(run.pk, encoded(story.opening()), "")
    for first in range(0, count, 50):
        events = []
        for index in range(first, first + 50):
            episode = story.episode(index // 10, index, "train", draw.random() < 0.4, f"train/{index}")
            for turn in episode["turns"]:
                text = " ".join(WORDS[int(len(WORDS) * draw.random() ** 3)] for _ in range(40))
                turn["messages"] = [{"role": "user", "content": text}]
            events.append(episode)
        batch_store(run.pk, encoded(iter(events)), "")


def copy_episodes(run: Run, times: int) -> None:
    """Copy the run's episodes under other names; words, facts and bodies stay the same."""
    keys = list(run.episodes.values_list("pk", flat=True))
    names = [field.column for field in Episode._meta.concrete_fields if field.column != "id"]
    changed = {"name": "e.name || '+' || copy", "iteration": "e.iteration + copy * 100"}
    values = ", ".join(changed.get(name, f"e.{name}") for name in names)
    with connection.cursor() as cursor:
        cursor.execute(COPY.format(names=", ".join(names), values=values), [times, keys])
        cursor.execute(BODIES, [keys])


def make_run(name: str) -> Run:
    """A run of the demonstration without events."""
    tree = load_config("plan_path_duo").model_dump(mode="json")
    return Run.objects.create(
        project=Project.objects.get(), owner=User.objects.get(), name=name, config=tree, iterations=10_000
    )


if __name__ == "__main__":
    run_program("search", benchmark, __doc__, episodes={"type": int, "default": EPISODES})
