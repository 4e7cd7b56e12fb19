"""`troupe data assign-ids`: stable ids, idempotence, errors."""

import json
import os
from pathlib import Path

import pytest

from training_core.errors import TroupeError
from troupe_client.cli.topics.data import assign_ids


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_ids_of_prompts_depend_on_their_content_only(tmp_path: Path) -> None:
    items = [
        {"prompt": "a"},
        {"prompt": "b", "label": 1},
        {"instance_id": "mine", "prompt": "c"},
        {"prompt": "a"},
    ]
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text("\n".join(json.dumps(item) for item in items))
    other.write_text("\n".join(json.dumps(item) for item in reversed(items)))
    os.chmod(one, 0o640)
    assign_ids(one)
    assign_ids(other)
    found = lines(one)
    ids = [item["instance_id"] for item in found]
    assert ids[2] == "mine" and ids[3] == f"{ids[0]}-2" and len(set(ids)) == 4
    assert [{k: v for k, v in item.items() if k != "instance_id"} for item in found] == [
        {k: v for k, v in item.items() if k != "instance_id"} for item in items
    ]
    assert {item["instance_id"] for item in lines(other)} == set(ids), "whatever the order of lines"
    assert one.stat().st_mode & 0o777 == 0o640


def test_assigning_ids_again_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"prompt": "a"}\n')
    assign_ids(file)
    text, when = file.read_text(), file.stat().st_mtime_ns
    assign_ids(file)
    assert (file.read_text(), file.stat().st_mtime_ns) == (text, when)
    with file.open("a") as more:
        more.write('{"prompt": "b"}\n')
    assign_ids(file)
    assert file.read_text().startswith(text), "ids that are there stay"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a"}\n{', "line 2: not JSON"),
        ('{"text": "a"}', "line 1: no prompt"),
        (
            '{"prompt": "a", "instance_id": 1}\n\n{"prompt": "b", "instance_id": "1"}',
            "lines 1 and 3 both have",
        ),
        ("\n", "has no prompt"),
    ],
)
def test_errors_name_the_line_and_leave_the_file_unchanged(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(text)
    with pytest.raises(TroupeError, match=message):
        assign_ids(file)
    assert file.read_text() == text
