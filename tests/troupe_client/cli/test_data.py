"""`troupe data`: import, and stable ids with idempotence and errors."""

import json
import os
from pathlib import Path

import pytest

from tests.troupe_client.cli.conftest import Troupe
from training_core.config.files import load_config, parse_overrides
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


def test_an_import_prints_counts_and_the_fields_for_a_config(troupe: Troupe, tmp_path: Path) -> None:
    source = tmp_path / "math.jsonl"
    source.write_text("".join(f'{{"problem": "{n} + 1?", "solution": {n + 1}}}\n' for n in range(50)))
    call = ("data", "import", str(source), "sums", "--question", "problem", "--answer", "solution")
    result = troupe(*call)
    assert result.status == 0, result.err
    numbers, fields = result.out.splitlines()
    counts = [int(word) for word in numbers.split() if word.isdigit()]
    folder = tmp_path / "home/data/sums"
    assert (
        counts == [len(lines(folder / "train.jsonl")), len(lines(folder / "eval.jsonl"))]
        and sum(counts) == 50
    )
    model = parse_overrides(fields.split())
    config = load_config("arithmetic", {"workflow.type": "turn_tree"} | model)
    assert (config.environment.path, config.environment.eval_path) == ("sums/train.jsonl", "sums/eval.jsonl")
    again = json.loads(troupe(*call, "--json").out)
    assert not again["changed"] and [again["train"], again["held_out"]] == counts


def test_an_import_that_fails_names_the_remedy(troupe: Troupe, tmp_path: Path) -> None:
    source = tmp_path / "math.jsonl"
    source.write_text('{"problem": "?"}\n')
    result = troupe("data", "import", str(source), "sums")
    assert result.status == 1 and "math.jsonl, line 1: no column 'prompt'" in result.err
    assert troupe("data", "import", str(source), "../sums", "--question", "problem").status == 1
    assert not (tmp_path / "home/data").exists()
