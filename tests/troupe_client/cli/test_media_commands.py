"""`troupe media`, of values that a program has logged, against a real server."""

import json
from pathlib import Path

import pytest

import troupe as client
from tests.troupe_client.cli.conftest import Troupe

pytestmark = pytest.mark.django_db(transaction=True)


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
