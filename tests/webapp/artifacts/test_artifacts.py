"""Artifacts: versions by content, aliases, uses, retention, downloads, previews; checkpoints as artifacts and models."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.checkpoints.conftest import Make
from training_core.config.files import read_preset
from training_core.errors import ConfigError
from troupe_client.documents.artifacts import VersionBody
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.api.routes import parsed
from webapp.artifacts.contents import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_COLUMNS,
    MOST_ROWS,
    content_path,
    preview_of,
)
from webapp.artifacts.models import Artifact, ArtifactFile, ArtifactUse, ArtifactVersion
from webapp.artifacts.services import (
    alias_set,
    artifacts_prune,
    files_document,
    use_note,
    version_create,
    version_remove,
)
from webapp.checkpoints.services import checkpoint_do
from webapp.quotas.models import Quota
from webapp.quotas.services import bytes_stored
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling.services import run_create

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.TROUPE_HOME = tmp_path
    return tmp_path


@pytest.fixture
def api(user: User) -> Client:
    secret = token_create(user, "t", ["read", "launch", "admin"])[1]
    return Client(headers={"Authorization": f"Bearer {secret}"})


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(api: Client, content: bytes, sha256: str = "") -> Any:
    address = f"/api/v1/projects/lab/artifact-contents/{sha256 or sha(content)}/"
    return api.put(address, content, content_type="application/octet-stream")


def send(api: Client, address: str, body: Any) -> Any:
    return api.post(address, json.dumps(body), content_type="application/json")


def dataset(content: bytes, **fields: Any) -> dict[str, Any]:
    file = {"path": "train/a b.jsonl", "size": len(content), "sha256": sha(content)}
    return {"name": "tasks", "type": "dataset", "files": [file]} | fields


def stored(api: Client, run: Run, content: bytes, **fields: Any) -> dict[str, Any]:
    put(api, content)
    answer = send(api, f"/api/v1/runs/{run.pk}/artifacts/", dataset(content, **fields))
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


def test_a_version_needs_its_contents_and_is_named_by_them(api: Client, run: Run) -> None:
    address = f"/api/v1/runs/{run.pk}/artifacts/"
    refused = send(api, address, dataset(b"one"))
    assert (refused.status_code, refused.json()["missing"]) == (409, [sha(b"one")])
    assert put(api, b"two", sha(b"one")).status_code == 400
    assert not content_path(run.project, sha(b"one")).exists()
    first = stored(api, run, b"one", aliases=["production"], metadata={"rows": 1})
    assert (first["version"], first["aliases"], first["made_by"]) == ("v0", ["latest", "production"], run.pk)
    second = stored(api, run, b"two")
    again = stored(api, run, b"one")
    assert (second["version"], again["version"]) == ("v1", "v0")
    assert bytes_stored(run.project) == 6
    assert {"artifact.create", "artifact.alias"} <= set(AuditEntry.objects.values_list("act", flat=True))


def test_downloads_continue_from_an_offset(api: Client, run: Run) -> None:
    version = stored(api, run, b"0123456789")
    address = f"/api/v1/artifacts/{version['artifact']}/versions/latest/files/train/a%20b.jsonl"
    assert b"".join(api.get(address).streaming_content) == b"0123456789"  # type: ignore[attr-defined]
    rest = api.get(address, headers={"Range": "bytes=7-"})
    assert (rest.status_code, rest["Content-Range"]) == (206, "bytes 7-9/10")
    assert b"".join(rest.streaming_content) == b"789"  # type: ignore[attr-defined]
    assert api.get(address, headers={"Range": "bytes=10-"}).status_code == 416


def test_a_used_or_named_version_is_kept_and_shared_contents_stay(
    api: Client, run: Run, user: User, project: Project
) -> None:
    first, second = stored(api, run, b"one", aliases=["production"]), stored(api, run, b"two")
    other = Run.objects.create(project=project, owner=user, name="b", config=run.config, iterations=1)
    used = send(api, f"/api/v1/runs/{other.pk}/artifacts/use/", {"artifact": "tasks:v1"})
    assert used.json()["files"][0]["sha256"] == sha(b"two") and ArtifactUse.objects.get().run == other
    address = f"/api/v1/artifacts/{first['artifact']}/"
    assert "alias production" in api.delete(f"{address}versions/v0/").json()["detail"]
    assert f"run {other.pk} used it" in api.delete(f"{address}versions/v1/").json()["detail"]
    assert send(api, f"{address}aliases/", {"alias": "production", "version": "v1"}).status_code == 200
    put(api, b"one")
    third = send(api, "/api/v1/projects/lab/artifacts/", dataset(b"one") | {"name": "copy"}).json()
    assert third["made_by"] is None
    assert api.delete(f"{address}versions/v0/").json()["removed"]
    assert content_path(project, sha(b"one")).exists(), "another artifact has the same content"
    assert api.get(f"{address}versions/v0/").status_code == 404
    assert second["version"] == "v1" and ArtifactFile.objects.count() == 3


def test_contents_go_with_their_last_version(
    api: Client, run: Run, user: User, django_capture_on_commit_callbacks: Any
) -> None:
    version = stored(api, run, b"one")
    with django_capture_on_commit_callbacks(execute=True):
        api.delete(f"/api/v1/artifacts/{version['artifact']}/versions/v0/")
    assert not content_path(run.project, sha(b"one")).exists()
    assert stored(api, run, b"one")["version"] == "v0"


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("files", [{"path": "../x", "size": 1, "sha256": "a" * 64}]),
        ("files", [{"path": "/x", "size": 1, "sha256": "a" * 64}]),
        ("files", []),
        ("aliases", ["latest"]),
        ("aliases", ["v3"]),
        ("name", "a b"),
    ],
)
def test_invalid_bodies_name_the_field(field: str, wrong: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(VersionBody, dataset(b"x") | {field: wrong})
    assert any(path.startswith(field) or path == "" for path in refused.value.fields)


def test_viewer_and_full_quota_store_nothing(api: Client, run: Run, project: Project, stranger: User) -> None:
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    with pytest.raises(PermissionDenied):
        version_create(stranger, project, VersionBody.model_validate(dataset(b"x")))
    Quota.objects.create(project=project, gigabytes=1, stored_bytes=2 * 10**9)
    assert "its quota is 1 GB" in put(api, b"x").json()["detail"]


def test_a_checkpoint_has_aliases_and_is_a_model_of_another_run(
    user: User, project: Project, run: Run, make: Make
) -> None:
    checkpoint = make(80)
    body = {
        "name": "planner",
        "type": "model",
        "checkpoint": {"run": run.pk, "name": "80", "policy": "planner"},
    }
    version = version_create(user, project, VersionBody.model_validate(body | {"aliases": ["production"]}))
    assert version_create(user, project, VersionBody.model_validate(body)).pk == version.pk
    facts = {"run": run.pk, "iteration": 80, "policy": "planner"}
    assert files_document(version).checkpoint.model_dump() == facts
    with pytest.raises(TransitionRefused, match="it is the artifact planner:v0"):
        checkpoint_do(user, checkpoint, "delete")
    tree = read_preset("plan_path_duo")
    model = {"policies.planner.model": "artifact:planner:production"}
    other = run_create(user, project, tree, "plan_path_duo", model)
    path = f"runs/{run.pk}/{checkpoint.path}/planner"
    assert other.config["policies"]["planner"]["model"] == path
    assert [(use.run, use.wanted) for use in version.uses.all()] == [(other, "planner:production")]
    with pytest.raises(ConfigError, match="policies.planner.model: planner has no version staging"):
        run_create(user, project, tree, "", {"policies.planner.model": "artifact:planner:staging"})
    with pytest.raises(ConfigError, match="it has the policies|the run has"):
        version_create(
            user,
            project,
            VersionBody.model_validate(body | {"checkpoint": body["checkpoint"] | {"policy": "x"}}),
        )  # type: ignore[operator]


def test_pages_show_versions_lineage_and_aliases(user: User, api: Client, run: Run) -> None:
    version = stored(api, run, b"one", metadata={"source": "<b>web</b>"})
    use_note(run, run.artifacts_made.get(), "tasks")
    client = Client()
    client.force_login(user)
    page = f"/artifacts/{version['artifact']}/"
    assert client.post(f"{page}aliases/", {"alias": "production", "version": "v0"}).status_code == 302
    html = client.get(page).content.decode()
    for text in ("production", "latest", "train/a b.jsonl", "&lt;b&gt;web", f"/runs/{run.pk}/", "v0"):
        assert text in html, text
    assert "tasks" in client.get("/artifacts/").content.decode()
    tab = client.get(f"/runs/{run.pk}/artifacts/").content.decode()
    assert tab.count(f"{page}?version=v0") == 2, "made and used"
    client.post(f"{page}aliases/", {"alias": "production", "remove": "1"})
    client.post(f"{page}versions/v0/delete/")
    assert "deleted" in client.get(page).content.decode()


def test_removal_of_a_checkpoint_version_frees_the_checkpoint(
    user: User, project: Project, run: Run, make: Make
) -> None:
    checkpoint = make(4)
    make(8)
    body = {"name": "planner", "checkpoint": {"run": run.pk, "name": "4", "policy": "planner"}}
    version = version_create(user, project, VersionBody.model_validate(body))
    alias_set(user, version, "best")
    with pytest.raises(TransitionRefused, match="alias best"):
        version_remove(user, version)
    version.aliases.all().delete()
    version_remove(user, version)
    assert checkpoint_do(user, checkpoint, "delete").removed


__all__ = ["api", "home"]  # fixtures
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
    odd = of(version(api, odd__jsonl=b'{"text": "\\ud800"}\n'))
    assert odd.kind == "text" and odd.text.encode(), "half of a surrogate pair cannot be sent to a browser"
    separated = of(version(api, separated__jsonl='{"text": "a\u2028b"}\n'.encode()))
    assert (separated.kind, separated.rows) == ("table", [["a\u2028b"]])


def test_hostile_content_is_text_and_no_page(api: Client, ada: Client, run: Run) -> None:
    hostile = json.dumps({HOSTILE: HOSTILE}).encode()
    one = version(api, x__jsonl=hostile, y__svg=f"<svg>{HOSTILE}</svg>".encode(), z__png=PNG)
    address = f"/artifacts/{one.artifact_id}/"
    for file in ("x.jsonl", "y.svg"):
        page = ada.get(address, {"file": file}).content.decode()
        assert HOSTILE not in page and "&lt;script&gt;" in page
    assert ada.get(f"{address}versions/v0/image/y.svg").status_code == 404
    shown = ada.get(f"{address}versions/v0/image/z.png")
    assert (shown["Content-Type"], shown["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert ada.get(address, {"file": "none"}).status_code == 404


def test_pruning_deletes_what_nothing_uses_and_counts_bytes(
    api: Client, user: User, ada: Client, run: Run
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
    shown = ada.post(f"/artifacts/{artifact.pk}/prune/", {"last": "1", "dry": "1"}, follow=True)
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
