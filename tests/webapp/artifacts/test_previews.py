"""Previews of files, bounded and escaped, and deletion of unused versions."""

import json
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.artifacts.test_artifacts import api, home, put, send, sha
from webapp.accounts.models import Membership, User
from webapp.artifacts.contents import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_COLUMNS,
    MOST_ROWS,
    content_path,
    preview_of,
)
from webapp.artifacts.models import Artifact, ArtifactVersion
from webapp.artifacts.services import alias_set, artifacts_prune, use_note
from webapp.runs.models import Run

__all__ = ["api", "home"]  # fixtures
pytestmark = pytest.mark.django_db
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 50
HOSTILE = "<script>window.hacked = 1</script>"


def version(api: Client, name: str = "a", **files: bytes) -> ArtifactVersion:
    """A version with files; two underscores stand for a full stop."""
    listed = []
    for path, content in files.items():
        put(api, content)
        listed.append({"path": path.replace("__", "."), "size": len(content), "sha256": sha(content)})
    body = {"name": name, "type": "file", "files": listed}
    answer = send(api, "/api/v1/projects/lab/artifacts/", body)
    assert answer.status_code == 201, answer.content
    return ArtifactVersion.objects.get(artifact__name=name, number=int(answer.json()["version"][1:]))


def of(one: ArtifactVersion) -> Any:
    return preview_of(one, one.files.get())


def test_kinds_of_files_have_bounded_previews(api: Client, run: Run) -> None:
    rows = "".join(json.dumps({"role": "planner", "text": "x" * 500, "n": row}) + "\n" for row in range(50))
    table = of(version(api, rows__jsonl=rows.encode()))
    assert (table.kind, table.columns, len(table.rows)) == ("table", ["role", "text", "n"], MOST_ROWS)
    assert len(table.rows[0][1]) == MOST_CHARACTERS + 1 and table.note == f"the first {MOST_ROWS} rows"
    wide = of(version(api, wide__csv=(",".join(map(str, range(100))) + "\n1,2\n").encode()))
    assert (len(wide.columns), wide.rows, wide.note) == (MOST_COLUMNS, [["1", "2"]], "1 rows")
    assert of(version(api, one__json=b'{"a": 1}')).text == '{\n  "a": 1\n}'
    assert of(version(api, broken__json=b'{"a":')).text == '{"a":'
    assert of(version(api, list__jsonl=b"[1]\n[2]\n")).kind == "text"
    assert of(version(api, image__txt=PNG)).kind == "image"
    assert of(version(api, binary__csv=b"a\0b")).kind == "none"
    long = of(version(api, long__txt=b"0123456789\n" * MOST_BYTES))
    assert long.kind == "text" and len(long.text) < MOST_BYTES and "first" in long.note
    assert of(version(api, empty__csv=b"")).kind == "text"


def test_hostile_content_is_text_and_no_page(api: Client, user: User, client: Client, run: Run) -> None:
    client.force_login(user)
    hostile = json.dumps({HOSTILE: HOSTILE}).encode()
    one = version(api, x__jsonl=hostile, y__svg=f"<svg>{HOSTILE}</svg>".encode(), z__png=PNG)
    address = f"/artifacts/{one.artifact_id}/"
    for file in ("x.jsonl", "y.svg"):
        page = client.get(address, {"file": file}).content.decode()
        assert HOSTILE not in page and "&lt;script&gt;" in page
    assert client.get(f"{address}versions/v0/image/y.svg").status_code == 404
    shown = client.get(f"{address}versions/v0/image/z.png")
    assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert client.get(address, {"file": "none"}).status_code == 404


def test_pruning_deletes_what_nothing_uses_and_counts_bytes(
    api: Client, user: User, client: Client, run: Run
) -> None:
    one, two, three, four = (version(api, "a", f=content) for content in (b"1", b"22", b"333", b"4444"))
    alias_set(user, one, "stable")
    use_note(run, two, "a:v1")
    version(api, "b", f=b"333", g=b"55555")
    artifact = Artifact.objects.get(name="a")
    address = "/api/v1/projects/lab/artifacts/prune/"
    dry = send(api, address, {"artifact": "a", "last": 0, "dry": True}).json()
    assert [row["version"] for row in dry["deleted"]] == ["a:v3", "a:v2"] and dry["freed"] == 4
    assert [row["reason"][:6] for row in dry["kept"]] == [f"run {run.pk}"[:6], "it has"]
    assert content_path(run.project, sha(b"4444")).exists()
    client.force_login(user)
    shown = client.post(f"/artifacts/{artifact.pk}/prune/", {"last": "1", "dry": "1"}, follow=True)
    assert "Would delete v2: 0 B" in shown.content.decode()
    assert artifacts_prune(user, run.project, [artifact]).deleted[0].version == "a:v2"
    for row, removed in ((one, False), (two, False), (three, True), (four, False)):
        row.refresh_from_db()
        assert row.removed == removed
    assert content_path(run.project, sha(b"333")).exists()  # the other artifact has it
    assert send(api, address, {"last": -1}).status_code == 400
    Membership.objects.filter(user=user).update(level=Membership.Level.VIEWER)
    with pytest.raises(PermissionDenied):
        artifacts_prune(user, run.project, [artifact])
