"""The bundled servers are real ones, and private."""

import stat
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from redis import Redis

from webapp.runs.models import Run
from webapp.stack.postgres import PostgresServer


def test_the_test_database_is_a_postgres(run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        assert cursor.fetchone()[0].startswith("18")
    assert Run.objects.get(pk=run.pk).config["run"]["name"] == "plan_path_duo"


def test_redis_refuses_rather_than_forgets() -> None:
    redis = Redis.from_url(settings.REDIS_URL)
    assert redis.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert redis.config_get("port") == {"port": "0"}
    redis.close()


@pytest.mark.django_db
def test_nothing_listens_on_the_network(servers: PostgresServer) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone()[0] == ""
    for folder in (servers.sockets, servers.data, Path(servers.data).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
