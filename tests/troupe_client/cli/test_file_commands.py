"""Commands about files: artifacts, logged media, base models, and archives with hostile members."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

import troupe as client
from tests.training_core.llm.base_models.test_gguf import TEMPLATE, write_gguf
from tests.training_core.llm.base_models.test_gguf import model as model
from tests.troupe_client.cli.conftest import Troupe
from training_core.errors import TroupeError
from troupe_client.cli.fetching import _extract
from webapp.artifacts.models import ArtifactUse


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TROUPE_HOME = tmp_path / "server"  # type: ignore[attr-defined]
    monkeypatch.setenv("TROUPE_DIR", str(tmp_path / "client"))


def test_a_folder_is_put_named_and_fetched(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "part 0.jsonl").write_text("{}\n")
    (folder / "readme.md").write_text("tasks")
    made = troupe("artifact", "put", "tasks", str(folder), "--type", "dataset", "--alias", "stable")
    assert "tasks:v0  latest, stable" in made.out, made.err
    assert "tasks:v0" in troupe("artifact", "put", "tasks", str(folder), "--type", "dataset").out
    (folder / "readme.md").write_text("more tasks")
    assert "tasks:v1" in troupe("artifact", "put", "tasks", str(folder), "--type", "dataset").out
    assert "stable" in troupe("artifact", "list").out
    shown = json.loads(troupe("artifact", "show", "tasks:stable", "--json").out)
    assert [file["path"] for file in shown["files"]] == ["readme.md", "train/part 0.jsonl"]
    there = Path(troupe("artifact", "get", "tasks:stable", "--to", str(tmp_path / "down")).out.strip())
    assert (there / "readme.md").read_text() == "tasks"
    assert (there / "train" / "part 0.jsonl").read_text() == "{}\n"
    assert "production is tasks:v1" in troupe("artifact", "alias", "tasks", "production").out
    assert "removed" in troupe("artifact", "alias", "tasks:production", "production", "--remove").out
    assert "no version" in troupe("artifact", "get", "tasks:production").err


def test_a_program_logs_and_uses_artifacts(connected: str) -> None:
    run = client.init(name="makes", steps=1)
    version = run.log_artifact(
        [{"role": "planner", "reward": 1.0}, {"role": "executor"}], "episodes", aliases=["good"]
    )
    assert (version["version"], version["type"], version["aliases"]) == ("v0", "table", ["latest", "good"])
    other = client.init(name="uses", steps=1)
    folder = other.use_artifact("episodes:good")
    rows = [json.loads(line) for line in (folder / "table.jsonl").read_text().splitlines()]
    assert rows[0] == {"role": "planner", "reward": 1.0} and ArtifactUse.objects.get().run_id == other.id
    assert other.use_artifact("episodes") == folder
    same = client.Table([["planner", 1.0]], columns=["role", "reward"])
    assert other.log_artifact(same, "one")["digest"] == other.log_artifact(same.mappings(), "one")["digest"]
    client.finish()


def test_artifacts_need_a_server(tmp_path: Path) -> None:
    with client.init(mode="offline", dir=str(tmp_path)) as run, pytest.raises(TroupeError, match="online"):
        run.log_artifact(tmp_path, "x")


def test_unused_versions_are_listed_and_deleted(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    for text in ("1", "22", "333"):
        file.write_text(text)
        troupe("artifact", "put", "rows", str(file))
    dry = troupe("artifact", "prune", "--dry-run").out
    assert "would delete  rows:v1  2 bytes" in dry and "2 versions, 3 bytes to free" in dry
    assert "deleted rows:v0" in troupe("artifact", "delete", "rows:v0").out
    assert json.loads(troupe("artifact", "prune", "rows", "--json").out)["freed"] == 2
    assert "0 versions, 0 bytes freed" in troupe("artifact", "prune").out
    assert "has no artifact" in troupe("artifact", "prune", "none").err


def test_logged_media_are_listed_and_downloaded(connected: str, troupe: Troupe, tmp_path: Path) -> None:
    run = client.init(name="media", steps=2, dir=str(tmp_path / "client"))
    image = client.Image([[0.0, 1.0]])
    client.log({"../shots/a": [image, image], "note": client.Text("<b>\n")})
    client.log({"table": client.Table([{"a": 1}])})
    assert client.finish()
    listed = {row["name"]: row for row in json.loads(troupe("media", "list", run.id, "--json").out)}
    assert listed["../shots/a"]["values"] == 2 and listed["table"]["first_step"] == 1
    folder = tmp_path / "down"
    assert "4 files" in troupe("media", "download", run.id, "--to", str(folder)).out
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert {path.parent.parent for path in files} == {folder}, "no name leads out of the folder"
    assert [path.suffix for path in files] == [".png", ".png", ".txt", ".json"]
    assert files[0].read_bytes() == image.data and files[2].read_text() == "<b>\n"
    assert json.loads(files[3].read_text()) == {"columns": ["a"], "rows": [[1]]}
    assert "troupe media list" in troupe("media", "download", run.id, "absent").err


def test_a_gguf_file_is_added_and_listed(troupe: Troupe, model: LlamaForCausalLM, tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    write_gguf(file, model, TEMPLATE)
    added = troupe("model", "add", str(file), "--name", "mine")
    assert added.status == 0 and "mine is ready" in added.out
    models = {each["name"]: each for each in json.loads(troupe("model", "list", "--json").out)}
    assert models["mine"]["ready"] and models["mine"]["parameters"] == model.num_parameters()
    assert models["smollm2"]["parameters"] == 134_515_008 and not models["smollm2"]["ready"]
    assert "tiny" in troupe("model", "list").out


def test_an_invalid_model_is_refused(troupe: Troupe, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = troupe("model", "add", str(tmp_path / "empty"))
    assert refused.status == 1 and "neither model.safetensors nor one .gguf file" in refused.err
    assert "Traceback" not in refused.err + refused.out


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside", tarfile.REGTYPE),
        ("/etc/outside", tarfile.REGTYPE),
        ("made/link", tarfile.SYMTYPE),
        ("made/device", tarfile.CHRTYPE),
    ],
)
def test_archive_members_outside_the_folder_are_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        archive.addfile(member)
    packed.seek(0)
    folder = tmp_path / "inside"
    folder.mkdir()
    with (
        tarfile.open(fileobj=packed, mode="r|") as archive,
        pytest.raises(tarfile.TarError, match="not a plain file"),
    ):
        _extract(archive, folder)
    assert not list(folder.iterdir()) and not (tmp_path / "outside").exists()
