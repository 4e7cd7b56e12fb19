"""/healthz, /readyz, /metrics."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from webapp.config import environment as env
from webapp.runs.models import Run
from webapp.site import views as health
from webapp.site.tasks import alive
from webapp.stack.home import MODEL_IN_WORK
from webapp.stack.worker_probe import KEY, forget_alive, worker_answers


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", False)
    with health._redis_client() as redis:
        redis.delete(KEY)


def ready(client: Client, part: str) -> tuple[int, str]:
    """The status of /readyz, and what it says of a part."""
    answer = client.get("/readyz")
    return answer.status_code, answer.json()["parts"][part]


@pytest.mark.django_db
def test_all_is_well(client: Client) -> None:
    alive()
    answer = client.get("/readyz")
    well = dict.fromkeys(("database", "migrations", "redis", "worker", "base_model"), "ok")
    assert (answer.status_code, answer.json()["parts"]) == (200, well | {"ray": "not used"})


@pytest.mark.django_db
def test_while_base_model_is_made_it_is_not_ready(client: Client, settings: object, tmp_path: Path) -> None:
    settings.TROUPE_HOME = tmp_path  # type: ignore[attr-defined]
    (tmp_path / MODEL_IN_WORK).touch()
    assert ready(client, "base_model") == (503, "being made")
    (tmp_path / MODEL_IN_WORK).unlink()
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_without_a_worker_pages_are_still_served(client: Client) -> None:
    assert ready(client, "worker") == (200, "has not reported yet")


@pytest.mark.django_db
def test_a_worker_that_was_seen_long_ago_is_not_well(settings: object) -> None:
    with health._redis_client() as redis:
        redis.set(KEY, repr(time.time() - 120))
    assert re.match(r"last seen 1[2-9]\d s", health.check_all()["worker"])
    assert not worker_answers(settings.REDIS_URL)  # type: ignore[attr-defined]


def test_a_previous_workers_heartbeat_does_not_count_for_the_next(settings: object) -> None:
    url = settings.REDIS_URL  # type: ignore[attr-defined]
    for address in (url, f"{url}?db=0"):  # without and with the package redis
        alive()
        assert worker_answers(address)
        forget_alive(address)
        assert not worker_answers(address)


@pytest.mark.django_db
def test_without_redis_it_is_not_ready(client: Client, settings: object, tmp_path: Path) -> None:
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"  # type: ignore[attr-defined]
    assert ready(client, "redis") == (503, "does not answer")
    assert client.get("/healthz").status_code == 200


@pytest.mark.django_db
def test_without_a_database_it_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nonexistent")
    connection.close()
    try:
        assert ready(client, "database") == (503, "does not answer")
    finally:
        monkeypatch.undo()
        connection.close()


@pytest.mark.django_db
def test_a_missing_migration_makes_it_not_ready(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'metrics'")
        missing = cursor.rowcount
    assert ready(client, "migrations") == (503, f"{missing} not applied")


@pytest.mark.django_db
def test_a_ray_that_is_gone_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")
    assert ready(client, "ray") == (200, "does not answer")


def test_metrics_count_and_name_nobody(run: Run, client: Client) -> None:
    text = client.get("/metrics").content.decode()
    assert 'troupe_runs{state="queued"} 1.0' in text
    assert 'troupe_part_up{part="database"} 1.0' in text
    assert run.pk not in text and run.name not in text and "ada" not in text


@pytest.mark.parametrize("page", ["healthz", "readyz", "metrics"])
@pytest.mark.django_db
def test_they_only_read(client: Client, page: str) -> None:
    assert client.post(f"/{page}").status_code == 405


def test_a_page_carries_the_security_headers(client: Client, db: None) -> None:
    headers = client.get("/account/login/").headers
    policy = headers["Content-Security-Policy"]
    # The order of the directives changes from process to process: compare them by name.
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";") if part.strip())
    assert directives["script-src"] == "'self'" and directives["object-src"] == "'none'"
    assert "unsafe-eval" not in policy
    assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
    cookie = client.cookies["troupe_csrf"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgres://u:p%40ss@db.example:5433/name", ("name", "u", "p@ss", "db.example", "5433")),
        ("postgresql://troupe@/troupe?host=/tmp/a%20b", ("troupe", "troupe", "", "/tmp/a b", "")),
    ],
)
def test_database_addresses(url: str, expected: tuple[str, ...]) -> None:
    found: dict[str, Any] = env.database(url)
    assert tuple(found[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")) == expected
    assert found["OPTIONS"] == {}


def test_a_process_may_have_a_pool_of_connections() -> None:
    found: dict[str, Any] = env.database("postgres://u@h/name", 40)
    assert found["OPTIONS"]["pool"]["max_size"] == 40 and found["CONN_HEALTH_CHECKS"]
    assert found["CONN_MAX_AGE"] == 0, "Django refuses persistent connections with a pool"
