"""The database of tests/benchmarks/scale.py: one project with runs, episodes, metrics and series of chosen numbers.

Templates go through ingest; the database copies them (`INSERT ... SELECT`), and the points come by COPY. Secondary indexes are made
after the rows. Run ids by purpose: `fixed` (its size does not grow), `large` (30 % of all episodes), `wide` (many metrics), `long`
(series of many points), and r0000001 on (10 for each family, seeds 0 to 9).
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tests.benchmarks.web import connection  # sets Django up; imports of models follow
from tests.end_to_end.seed import Story, encoded
from training_core.config.files import load_config
from webapp.accounts.models import Membership, Project, User
from webapp.ingest.services import batch_store
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Series
from webapp.metrics.points import outline_of, outline_pack
from webapp.metrics.services import LARGEST_CHUNK
from webapp.runs.models import Attempt, Run
from webapp.transcripts.models import Episode
from webapp.transcripts.words import run_word

TEMPLATES, SPOKEN = 1000, 30
"""Episodes that are copied, and the words of each that are drawn from WORDS; the first words are the most frequent."""
FIXED, BODIES = 3000, 500
"""Episodes of the run `fixed`; newest episodes of `large` that have bodies."""
DRAWN_RUNS, DRAWN_POINTS, SERIES = 10_000, 100, 20
"""Runs with points of eval/success, points of each, and series of the run `long`."""
WORDS = [
    f"{a}{b}{c}" for a in ("al", "be", "co", "du") for b in ("ra", "mi", "so", "ne", "lu") for c in range(250)
]
KEYS = ("eval/success", "train/return", "policy/planner/kl", "policy/planner/entropy", "time/update")


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows."""

    runs: int
    episodes: int
    keys: int
    points: int


def fill(sizes: Sizes) -> None:
    """Fill an empty, migrated database."""
    user = User.objects.create_user("ada")
    project = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=project, user=user, level=Membership.Level.OWNER)
    with _without_indexes("runs_run", "runs_attempt", "metrics_series", "metrics_chunk"):
        _runs(user, project, sizes.runs)
        for name in ("fixed", "large", "wide", "long"):
            _run_make(user, project, name)
    _story("fixed")
    _wide(sizes.keys)
    _long(sizes.points)
    _templates()
    with _without_indexes("transcripts_episode"):
        _episodes("fixed", FIXED)
        _episodes("large", sizes.episodes * 3 // 10)
        _spread(max(0, sizes.episodes - FIXED - sizes.episodes * 3 // 10), sizes.runs)
    _bodies()
    _execute("UPDATE transcripts_episode SET words = words || to_tsvector('simple', 'needle') WHERE id = "
             "(SELECT id FROM transcripts_episode WHERE run_id = 'large' ORDER BY id OFFSET 100 LIMIT 1)")  # fmt: skip
    _rows_of_large(sizes.episodes)
    _execute(import_module("webapp.runs.migrations.0020_shared_jobs").COUNTS)
    _execute("VACUUM (ANALYZE)")


def _execute(statement: str, values: Any = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or [])


@contextmanager
def _without_indexes(*tables: str) -> Iterator[None]:
    """Drop the indexes that are no constraints, and make them again at the end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) AND indexname NOT IN (SELECT conname FROM pg_constraint)",
            [list(tables)],
        )
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        cursor.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            cursor.execute(definition)


def _run_make(user: User, project: Project, name: str) -> None:
    tree = load_config("plan_path_duo").model_dump(mode="json")
    Run.objects.create(
        pk=name, project=project, owner=user, name=name, preset="plan_path_duo", config=tree, iterations=10_000,
        family=name, tone=1,
    )  # fmt: skip
    Attempt.objects.create(run_id=name, number=1, state="live", submission_id=f"{name}-1")


def _copies(model: Any, source: str, given: dict[str, str]) -> str:
    """Return columns and values of copies of the rows aliased `source`, except for the expressions in `given`."""
    names = [field.column for field in model._meta.concrete_fields if field.column != "id" or "id" in given]
    return f"({', '.join(names)}) SELECT {', '.join(given.get(name, f'{source}.{name}') for name in names)}"


def _runs(user: User, project: Project, count: int) -> None:
    """Runs of ten seeds per family, an attempt and the summaries of KEYS for each, points of one metric for some."""
    _run_make(user, project, "sample")
    given = {
        "id": "'r' || lpad(n::text, 7, '0')",
        "name": "'run ' || n",
        "family": "lpad(to_hex(n / 10), 16, '0')",
        "config": "jsonb_set(s.config, '{run,seed}', to_jsonb(n %% 10))",
        "state": "(ARRAY['finished', 'failed', 'stopped', 'finished'])[1 + n %% 4]",
        "headline": "jsonb_build_object('eval/success', n::float / %(count)s, 'train/return', 1.0)",
        "tags": "CASE WHEN n %% 3 = 0 THEN '[\"base\"]'::jsonb ELSE '[]' END",
        "created_at": "s.created_at - n * interval '1 minute'",
    }
    numbers = {"count": count, "keys": list(KEYS), "drawn": min(count, DRAWN_RUNS)}
    source = "FROM runs_run s, generate_series(1, %(count)s) n WHERE s.id = 'sample'"
    _execute(f"INSERT INTO runs_run {_copies(Run, 's', given)} {source}", numbers)
    attempt = {
        "run_id": "r.id",
        "submission_id": "r.id || '-1'",
        "state": "'ended'",
        "ended_as": "'finished'",
    }
    source = "FROM runs_attempt a, runs_run r WHERE a.run_id = 'sample' AND r.id ~ '^r[0-9]+$'"
    _execute(f"INSERT INTO runs_attempt {_copies(Attempt, 'a', attempt)} {source}")
    Run.objects.filter(pk="sample").delete()
    _execute(
        "INSERT INTO metrics_series (run_id, key, count, last_attempt, last_step, last_value, last_time, chunk_count, "
        "first_value, min_value, max_value) "
        "SELECT r.id, key, 100, 1, 100, (headline->>'eval/success')::float, 1e9, 1, 0, 0, 1 FROM runs_run r, unnest(%(keys)s::text[]) key",
        numbers,
    )
    steps = np.arange(1, DRAWN_POINTS + 1)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE drawn (number int, steps bytea, vals bytea, times bytea)")
        with cursor.copy("COPY drawn FROM STDIN") as copy:
            for number in range(100):
                values = np.sin(steps / 30) + np.random.default_rng(number).normal(0, 0.1, len(steps))
                copy.write_row([number, pack_ints(steps), pack_floats(values), pack_floats(1e9 + steps)])
        cursor.execute(
            "INSERT INTO metrics_chunk (series_id, attempt, cursor, count, steps, values, times) "
            "SELECT s.id, 1, 100, 100, steps, vals, times FROM metrics_series s JOIN drawn ON number = substr(run_id, 2)::int %% 100 "
            "WHERE key = 'eval/success' AND substr(run_id, 2)::int <= %(drawn)s",
            numbers,
        )


def _story(run: str) -> None:
    """24 iterations with everything that a driver reports."""
    story = Story(run)
    batch_store(run, encoded(story.opening()), "")
    batch_store(run, encoded(story.iterations(0, 24, whole=1)), "")


def _wide(keys: int) -> None:
    """Summaries of many metrics in sections of a thousand, and points of the first ones."""
    _execute(
        "INSERT INTO metrics_series (run_id, key, count, last_attempt, last_step, last_value, last_time, chunk_count) "
        "SELECT 'wide', 'section_' || n / 1000 || '/group_' || n / 20 || '/metric_' || n, 100, 1, 100, 0.5, 1e9, 1 FROM "
        "generate_series(1, %s) n",
        [keys],
    )
    _execute(
        "INSERT INTO metrics_chunk (series_id, attempt, cursor, count, steps, values, times) "
        "SELECT s.id, 1, 100, 100, steps, vals, times FROM metrics_series s JOIN drawn ON number = 0 WHERE run_id = 'wide' AND "
        "s.id %% 50 = 0"
    )


def _long(points: int) -> None:
    """Series of many points: noise around a wave, in chunks as compaction leaves them."""
    run = Run.objects.get(pk="long")
    run.event_count = points
    run.save(update_fields=["event_count"])
    for number in range(SERIES):
        noise = np.random.default_rng(number).normal(0, 0.1, points)
        values = np.sin(np.arange(points) / 1000) + noise
        series = Series.objects.create(
            run=run, key=f"train/series_{number}", count=points, last_attempt=1, last_step=points, last_value=values[-1],
            chunk_count=points // LARGEST_CHUNK + 1,
        )  # fmt: skip
        copy_points(series, values)


def copy_points(series: Series, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    """Store the points of a series at the steps from 0 on, in chunks as compaction leaves them."""
    points = len(values)
    columns = "series_id, attempt, cursor, count, first_step, last_step, steps, values, times, outline"
    with connection.cursor() as cursor, cursor.copy(f"COPY metrics_chunk ({columns}) FROM STDIN") as copy:
        for first in range(0, points, LARGEST_CHUNK):
            steps = np.arange(first, min(first + LARGEST_CHUNK, points))
            times = 1e9 + steps * 0.37
            outline = outline_pack(outline_of(steps, values[steps], times))
            arrays = (pack_ints(steps), pack_floats(values[steps]), pack_floats(times), outline)
            copy.write_row([series.pk, 1, first + 1, len(steps), int(steps[0]), int(steps[-1]), *arrays])


def _templates() -> None:
    """A table of episodes of the run `fixed`, their words without the run's own word."""
    story, draw = Story("fixed", seed=1), random.Random(0)
    made = []
    for first in range(0, TEMPLATES, 50):
        events = [
            story.episode(index // 10, index, "train", draw.random() < 0.4, f"train/{index}")
            for index in range(first, first + 50)
        ]
        for number, event in enumerate(events):
            event |= {"producer": "templates", "seq": first + number + 1, "episode": f"t-{first + number}"}
        made += events
        batch_store("fixed", encoded(iter(events)), "")
    _execute(
        "CREATE TABLE template AS SELECT row_number() OVER (ORDER BY id) AS number, * "
        "FROM transcripts_episode WHERE name LIKE 't-%%'"
    )
    words = [
        " ".join(WORDS[int(len(WORDS) * draw.random() ** 3)] for _ in range(SPOKEN)) for _ in range(TEMPLATES)
    ]
    _execute(
        "UPDATE template SET words = ts_delete(words, %s) || to_tsvector('simple', (%s::text[])[number])",
        [run_word("fixed"), words],
    )


_GIVEN = {
    "id": "nextval(pg_get_serial_sequence('transcripts_episode', 'id'))",
    "name": "'2-' || n || '-' || t.kind || '-0'",
    "iteration": "1 + n / 10",
    "task": "'train/' || n %% 10000",
    "cursor": "n",
}


def _episodes(run: str, count: int) -> None:
    """So many episodes of a run."""
    given = _GIVEN | {"run_id": f"'{run}'", "words": f"t.words || '{run_word(run)}'::tsvector"}
    columns = _copies(Episode, "t", given)
    _execute(
        f"INSERT INTO transcripts_episode {columns} FROM generate_series(1, %s) n JOIN template t ON t.number = 1 + n %% {TEMPLATES}",
        [count],
    )


def _spread(count: int, runs: int) -> None:
    """The other episodes, equally many for each run, as they would arrive from runs at work."""
    word = f"encode(convert_to('run·r' || lpad((1 + n %% {runs})::text, 7, '0'), 'UTF8'), 'hex')"
    given = _GIVEN | {
        "run_id": f"'r' || lpad((1 + n %% {runs})::text, 7, '0')",
        "words": f"t.words || ({word})::tsvector",
    }
    _execute(
        f"INSERT INTO transcripts_episode {_copies(Episode, 't', given)} FROM generate_series(1, %s) n JOIN template t ON "
        f"t.number = 1 + n / 7 %% {TEMPLATES}",
        [count],
    )


def _bodies() -> None:
    """Bodies of the newest episodes of `fixed` and `large`."""
    _execute(
        "INSERT INTO transcripts_episodebody (episode_id, data, size, frames) SELECT e.id, b.data, b.size, b.frames FROM ("
        "  (SELECT id, title FROM transcripts_episode WHERE run_id = 'large' ORDER BY id DESC LIMIT %s) UNION ALL"
        "  (SELECT id, title FROM transcripts_episode WHERE run_id = 'fixed' AND name LIKE '2-%%' ORDER BY id DESC LIMIT %s)) e "
        "JOIN LATERAL (SELECT t.id FROM template t WHERE t.title = e.title LIMIT 1) same ON true "
        "JOIN transcripts_episodebody b ON b.episode_id = same.id ON CONFLICT DO NOTHING",
        [BODIES, BODIES],
    )


def _rows_of_large(episodes: int) -> None:
    """Log lines and phases of the run `large`, a tenth and a fiftieth of the episodes."""
    Run.objects.filter(pk="large").update(iteration=9_000, state="running")
    _execute(
        "INSERT INTO runs_logline (run_id, attempt, cursor, time, level, source, message) "
        "SELECT 'large', 1, n, now() + n * interval '1 second', CASE WHEN n %% 500 = 0 THEN 'error' ELSE 'info' END, 'driver', "
        "'line ' || n FROM generate_series(1, %s) n",
        [episodes // 10],
    )
    _execute(
        'INSERT INTO runs_phase (run_id, attempt, cursor, worker, phase, policy, iteration, start, "end") '
        "SELECT 'large', 1, n, 'worker-' || n %% 4, (ARRAY['rollout', 'update'])[1 + n %% 2], 'planner', n / 8, 1e9 + n, 1e9 + n "
        "+ 0.8 FROM generate_series(1, %s) n",
        [episodes // 50],
    )
