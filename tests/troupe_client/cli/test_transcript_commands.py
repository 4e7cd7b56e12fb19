"""troupe episode list and transcript against a real server."""

import json
from pathlib import Path

import pytest

from tests.troupe_client.cli.conftest import Troupe
from tests.webapp.transcripts.test_episodes import played, turn
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.services import episodes_store


@pytest.fixture
def told(connected: str, run: Run) -> Run:
    hostile = "goal \x1b[2J[bold]x[/bold]"
    episodes_store(
        run, 1, [played("1-3-train-0", title=hostile), played("1-4-train-0", iteration=4, success=False, outcome="lost")]
    )  # fmt: skip
    return run


def test_transcripts_are_found_and_read(troupe: Troupe, told: Run) -> None:
    listed = troupe("episode", "list", told.pk)
    assert listed.status == 0 and listed.out.index("1-4-train-0") < listed.out.index("1-3-train-0")
    assert "goal \ufffd[2J[bold]x[/bold]" in listed.out
    found = json.loads(
        troupe("episode", "list", told.pk, "-s", "lost", "-f", "outcome=unsolved", "--json").out
    )
    assert [each["name"] for each in found] == ["1-4-train-0"]
    assert "No episode matches" in troupe("episode", "list", told.pk, "-f", "iteration_min=5").out
    pk = str(Episode.objects.get(name="1-3-train-0").pk)
    read = troupe("episode", "show", pk)
    assert "#1 planner (planner)  reward 1.500" in read.out and "<script>x</script>" in read.out
    assert len(json.loads(troupe("episode", "show", pk, "--json").out)["turns"]) == 3


def test_an_answer_of_several_calls_is_read_as_messages(troupe: Troupe, connected: str, run: Run) -> None:
    messages = [
        {"role": "assistant", "content": "I look.", "tool_calls": 'look({"at": "x"})\nwait({})'},
        {"role": "tool", "content": "north"},
        {"role": "assistant", "content": "north"},
    ]
    asked = turn(0, "planner")
    asked["candidates"][0] |= {"messages": messages, "text": "<tool_call>raw"}
    episodes_store(run, 1, [played("1-3-train-0", turns=[asked])])
    shown = troupe("episode", "show", str(Episode.objects.get(name="1-3-train-0").pk)).out
    lines = [
        "assistant: I look.",
        '  calls look({"at": "x"})',
        "  calls wait({})",
        "tool: north",
        "assistant: north",
    ]
    assert "\n".join(lines) in shown and "raw" not in shown


def test_notes_and_export(troupe: Troupe, told: Run, tmp_path: Path) -> None:
    pk = str(Episode.objects.get(name="1-3-train-0").pk)
    made = json.loads(
        troupe("episode-note", "add", pk, "look [b]here[/b]", "--label", "good", "--turn", "2", "--json").out
    )
    assert "good   look [b]here[/b]" in troupe("episode-note", "list", pk).out
    path = tmp_path / "out.jsonl"
    assert "1 episodes in" in troupe("episode", "export", told.pk, "-f", "label=good", "-o", str(path)).out
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["notes"][0]["id"] == made["id"] and len(json.loads(line)["turns"]) == 3
    assert len(troupe("episode", "export", told.pk).out.splitlines()) == 2
    assert "removed" in troupe("episode-note", "remove", pk, str(made["id"])).out
    assert "No notes yet" in troupe("episode-note", "list", pk).out
    assert "no turn 9" in troupe("episode-note", "add", pk, "x", "--turn", "9").err
    refused = troupe("episode", "export", told.pk, "-f", "version=x", "-o", str(tmp_path / "none"))
    assert refused.status == 1 and "version: " in refused.err and not (tmp_path / "none").exists()


def test_probes_and_differences(troupe: Troupe, told: Run) -> None:
    assert "No evaluation" in troupe("episode", "probes", told.pk).out
    Episode.objects.update(kind="eval", probe=True)
    result = troupe("episode", "probes", told.pk)
    assert "iteration 3" in result.out and "planner: go up | executor: go up" in result.out
    keys = [str(pk) for pk in Episode.objects.order_by("pk").values_list("pk", flat=True)]
    assert len(json.loads(troupe("episode", "probes", told.pk, "--json").out)[0]["plays"]) == 2
    assert "#1 planner: go up" in troupe("episode", "diff", *keys).out
    assert json.loads(troupe("episode", "diff", *keys, "--json").out)["turns"][0]["same"] is True


def test_mistakes_are_told(troupe: Troupe, told: Run) -> None:
    assert "reward_min: give a number" in troupe("episode", "list", told.pk, "-f", "reward_min=x").err
    assert "nonesuch: there is no such field" in troupe("episode", "list", told.pk, "-f", "nonesuch=1").err
    assert "NAME=VALUE" in troupe("episode", "list", told.pk, "-f", "failed").err
    assert troupe("episode", "show", "999999").status == 1


def test_trees_and_groups(troupe: Troupe, told: Run) -> None:
    pk = str(Episode.objects.get(name="1-3-train-0").pk)
    tree = troupe("episode", "tree", pk).out
    assert "#1 planner  [1.500]  1.500  equal rewards: no gradient" in tree and tree.count("#") == 3
    assert len(json.loads(troupe("episode", "tree", pk, "--json").out)) == 3
    group = troupe("episode", "group", pk, "2").out
    assert "#2 executor (executor)  mean reward 1.500  std 0.000" in group
    assert "*   1.500       –  go up" in group and "    1.500       –  go down" in group
    assert json.loads(troupe("episode", "group", pk, "2", "--json").out)["executed"] == 0
    assert "no stored turn 9" in troupe("episode", "group", pk, "9").err


def test_tokens(troupe: Troupe, told: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pk = str(Episode.objects.get(name="1-3-train-0").pk)
    read = troupe("episode", "tokens", pk, "1").out
    assert "#1 candidate 1  2 tokens  advantage" in read and "' up'" in read and "-Infinity" in read
    found = json.loads(troupe("episode", "tokens", pk, "1", "--candidate", "2", "--json").out)
    assert (found["candidate"], found["token_ids"], found["logprobs"]) == (1, [5, 6], [-0.1, "-Infinity"])
    monkeypatch.setattr("webapp.transcripts.api.MOST_TOKENS", 1)
    assert json.loads(troupe("episode", "tokens", pk, "1", "--json").out)["token_ids"] == [5, 6]
    assert "has 2 candidates" in troupe("episode", "tokens", pk, "1", "--candidate", "9").err
