"""Files of runs through MLflow's artifact proxy."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.http import Http404
from django.test import Client

from webapp.artifacts.models import Artifact, ArtifactFile
from webapp.artifacts.services import run_file_store
from webapp.media.models import MediaValue
from webapp.quotas.models import Quota
from webapp.runs.models import Run


@pytest.fixture
def client(secret: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {secret}"})


def address(run_id: str, path: str) -> str:
    return f"/mlflow/api/2.0/mlflow-artifacts/artifacts/{run_id}/artifacts/{path}"


def put(client: Client, run_id: str, path: str, content: bytes) -> int:
    return client.put(address(run_id, path), content, content_type="text/plain").status_code


def listed(client: Client, run_id: str, folder: str = "") -> list[dict[str, Any]]:
    root = f"{run_id}/artifacts/{folder}".rstrip("/")
    files = client.get("/mlflow/api/2.0/mlflow-artifacts/artifacts", {"path": root}).json()["files"]
    return list(files)


def test_files_are_stored_listed_and_returned(client: Client, run_id: str) -> None:
    assert listed(client, run_id) == []
    for path, content in {"model/MLmodel": b"a", "model/data/w.bin": b"bb", "x.txt": b"ccc"}.items():
        assert put(client, run_id, path, content) == 200
    assert listed(client, run_id) == [
        {"path": "model", "is_dir": True},
        {"path": "x.txt", "is_dir": False, "file_size": 3},
    ]
    assert listed(client, run_id, "model") == [
        {"path": "MLmodel", "is_dir": False, "file_size": 1}, {"path": "data", "is_dir": True},
    ]  # fmt: skip
    assert b"".join(client.get(address(run_id, "model/data/w.bin")).streaming_content) == b"bb"  # type: ignore[attr-defined]
    version = Artifact.objects.get(name=f"run-{run_id}").versions.get()
    assert (version.size, version.run_id, version.files.count()) == (6, run_id, 3)


def test_a_replaced_file_frees_its_content(
    client: Client, run_id: str, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        put(client, run_id, "x.txt", b"first")
        put(client, run_id, "same.txt", b"first")
        put(client, run_id, "y.txt", b"only here")
        hashes = dict(ArtifactFile.objects.values_list("path", "sha256"))
        put(client, run_id, "x.txt", b"second")
        put(client, run_id, "y.txt", b"second")
    contents = {file.name for file in (Path(settings.TROUPE_HOME) / "artifacts").rglob("*") if file.is_file()}
    assert hashes["same.txt"] in contents and hashes["y.txt"] not in contents
    assert b"".join(client.get(address(run_id, "x.txt")).streaming_content) == b"second"  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a//b", "x" * 401])
def test_a_path_that_leaves_the_folder_is_refused(client: Client, run_id: str, path: str) -> None:
    assert put(client, run_id, path, b"x") in (400, 404)
    assert not ArtifactFile.objects.exists()


def test_a_full_project_refuses_files(client: Client, run_id: str, project: Any) -> None:
    Quota.objects.create(project=project, gigabytes=0.0, stored_bytes=1)
    assert put(client, run_id, "x.txt", b"x") == 409
    assert client.get(address(run_id, "x.txt")).status_code == 404
    assert client.get(address("nosuchrun", "x.txt")).status_code == 404


PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_an_image_with_a_key_and_a_step_is_media(client: Client, run_id: str) -> None:
    path = "images/eval~frame+step+3+timestamp+1700000000500+0b5b"
    for _ in range(2):
        assert put(client, run_id, f"{path}.png", PNG) == 200
    put(client, run_id, f"{path}+compressed.webp", PNG)
    put(client, run_id, "images/frame+step+4+timestamp+1700000000500+0b5c.png", b"no image")
    media = MediaValue.objects.get()
    assert (media.run_id, media.name, media.step, media.kind) == (run_id, "eval/frame", 3, "image")
    assert Run.objects.get(pk=run_id).media_count == 1


def test_a_file_of_a_run_that_is_removed_meanwhile_is_refused(user: Any, run_id: str) -> None:
    run = Run.objects.get(pk=run_id)
    Run.objects.filter(pk=run_id).delete()
    with pytest.raises(Http404):
        run_file_store(user, run, "x.txt", BytesIO(b"x").read)
    assert not Artifact.objects.exists()
