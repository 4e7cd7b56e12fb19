"""Ingest: each event once, in order, all of a batch or nothing of it; whoever may not write does not."""

import gzip
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webapp.accounts.models import Membership, User
from webapp.accounts.tokens import token_create
from webapp.ingest import batches
from webapp.ingest import batches as limits
from webapp.ingest.batches import IngestRejected
from webapp.ingest.models import Producer
from webapp.ingest.services import batch_store
from webapp.ingest.views import check_token
from webapp.metrics.models import Block
from webapp.metrics.selectors import series_read
from webapp.runs.models import Attempt, LogLine, Run
from webapp.runs.selectors import lost_events

Make = Callable[..., dict[str, Any]]
Send = Callable[..., Any]


def steps(run: Run) -> list[int]:
    return series_read(run, ["train/return"]).get("train/return", {"steps": []})["steps"]


class TestOrder:
    def test_a_batch_is_stored_and_acknowledged(
        self, run: Run, event: Make, send: Send, attempt: Attempt
    ) -> None:
        answer = send(event(1), event(2), event(3, type="log", level="info", source="driver", message="hi"))
        assert (answer.status_code, answer.json()) == (200, {"acknowledged": 3, "command": None})
        run.refresh_from_db()
        assert run.event_count == 3
        assert steps(run) == [1, 2]
        assert run.headline["train/return"] == 1.0
        assert LogLine.objects.get().message == "hi"
        attempt.refresh_from_db()
        assert attempt.heartbeat_at is not None

    def test_a_batch_of_metrics_takes_nine_queries(
        self, event: Make, send: Send, django_capture_on_commit_callbacks: Any
    ) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            send(event(1, values={"loss": 1.0}), event(2))
        with CaptureQueriesContext(connection) as queries:
            send(event(3, values={"loss": 1.0}))
        words = [query["sql"].split(None, 2)[:2] for query in queries.captured_queries]
        stored = [first for first, *_ in words if first not in ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")]
        assert stored == ["SELECT"] * 6 + ["INSERT", "UPDATE", "WITH"], words

    def test_completed_steps_have_64_bits(self, run: Run, event: Make, send: Send) -> None:
        state = {"type": "status", "state": "running", "message": "", "facts": {}}
        send(event(1, **state, iteration=10**12), event(2, type="heartbeat", iteration=2**62))
        run.refresh_from_db()
        assert run.iteration == 2**62

    def test_the_lost_events_of_each_producer_are_a_fact_of_the_run(
        self, run: Run, event: Make, send: Send
    ) -> None:
        beat = {"type": "heartbeat", "iteration": 1}
        send(event(1, **beat, lost=2), event(2, **beat), event(3, **beat, lost=5))
        send(event(1, **beat, lost=1, producer="p2"))
        send(event(4, **beat))
        assert lost_events(run) == 6

    def test_what_was_stored_is_acknowledged_and_not_stored_again(
        self, run: Run, event: Make, send: Send
    ) -> None:
        send(event(1), event(2))
        assert send(event(1), event(2)).json()["acknowledged"] == 2
        assert send(event(2), event(3)).json()["acknowledged"] == 3
        assert send(event(1)).json()["acknowledged"] == 3
        run.refresh_from_db()
        assert (run.event_count, steps(run)) == (3, [1, 2, 3])

    def test_a_gap_says_what_is_expected(self, run: Run, event: Make, send: Send) -> None:
        send(event(1))
        answer = send(event(3))
        assert (answer.status_code, answer.json()) == (409, {"code": "gap", "expected": 2})
        assert send(event(5, producer="p2")).json() == {"code": "gap", "expected": 1}
        assert steps(run) == [1]

    def test_producers_count_for_themselves(self, run: Run, event: Make, send: Send) -> None:
        send(event(1))
        assert send(event(1, producer="p2", step=9)).json()["acknowledged"] == 1
        assert steps(run) == [1, 9]
        assert Producer.objects.count() == 2

    def test_one_bad_event_stores_nothing(self, run: Run, event: Make, send: Send) -> None:
        answer = send(event(1), event(2, values={"a": "many"}), event(3))
        assert answer.status_code == 400
        assert answer.json()["seq"] == 2
        assert any(path.startswith("values.a") for path in answer.json()["errors"])
        assert not Block.objects.exists()
        assert not Producer.objects.exists()

    @pytest.mark.parametrize(
        ("changes", "path"),
        [
            ({"seq": 9}, "seq"),
            ({"run": "other"}, "run"),
            ({"producer": "p2"}, "producer"),
            ({"attempt": 2}, "producer"),
            ({"type": "surprise"}, ""),
            ({"more": 1}, "more"),
            ({"step": 2**63}, "step"),
            ({"time": "NaN"}, "time"),
            ({"time": -1}, "time"),
        ],
    )
    def test_an_odd_event_is_named(self, event: Make, send: Send, changes: dict[str, Any], path: str) -> None:
        answer = send(event(1), event(2) | changes, event(3))
        assert answer.status_code == 400, answer.json()
        assert answer.json()["seq"] == changes.get("seq", 2)
        assert path in answer.json()["errors"]

    @pytest.mark.parametrize(("seq", "named"), [(7, 7), (True, None), ("7", None), (None, None)])
    def test_an_invalid_first_event_is_named_by_its_own_seq(
        self, event: Make, send: Send, seq: object, named: int | None
    ) -> None:
        assert send(event(1) | {"seq": seq, "time": -1}).json()["seq"] == named

    def test_numbers_that_json_lacks_are_stored_as_such(self, run: Run, event: Make, send: Send) -> None:
        send(
            event(1, values={"a": "NaN"}),
            event(2, values={"a": "Infinity"}),
            event(3, values={"a": "-Infinity"}),
        )
        assert series_read(run, ["a"])["a"]["values"] == ["NaN", "Infinity", "-Infinity"]

    def test_steps_out_of_order_are_kept(self, run: Run, event: Make, send: Send) -> None:
        send(event(1, step=7), event(2, step=3), event(3, step=7), event(4, step=-1))
        assert steps(run) == [-1, 3, 7, 7]

    def test_nul_characters_become_visible(self, event: Make, send: Send) -> None:
        assert send(event(1, type="log", level="info", source="a", message="x\0y")).status_code == 200
        assert LogLine.objects.get().message == "x\ufffdy"

    def test_heartbeats_tell_progress(self, run: Run, event: Make, send: Send) -> None:
        send(event(1, type="status", state="running", iteration=3), event(2, type="heartbeat", iteration=4))
        run.refresh_from_db()
        assert run.iteration == 4

    def test_progress_follows_the_order_of_events_in_a_batch(self, run: Run, event: Make, send: Send) -> None:
        send(
            event(1, type="status", state="running", iteration=0),
            event(2, type="heartbeat", iteration=5),
            event(3, type="status", state="finished", iteration=10),
            event(4, type="heartbeat", iteration=10),
        )
        run.refresh_from_db()
        assert (run.state, run.iteration) == ("finished", 10)

    def test_heartbeat_after_last_word_changes_no_progress(self, run: Run, event: Make, send: Send) -> None:
        send(
            event(1, type="status", state="running", iteration=0),
            event(2, type="status", state="finished", iteration=10),
            event(3, type="heartbeat", iteration=5),
        )
        run.refresh_from_db()
        assert (run.state, run.iteration) == ("finished", 10)

    def test_an_attempt_that_has_not_started_sets_no_progress_back(
        self, run: Run, event: Make, send: Send
    ) -> None:
        Run.objects.update(iteration=6)
        send(event(1, type="status", state="starting", iteration=0), event(2, type="heartbeat", iteration=0))
        run.refresh_from_db()
        assert run.iteration == 6
        send(event(3, type="status", state="running", iteration=4), event(4, type="heartbeat", iteration=5))
        run.refresh_from_db()
        assert run.iteration == 5


class TestAttempts:
    def test_an_unknown_attempt_is_told_to_try_again(self, event: Make, send: Send) -> None:
        answer = send(event(1, attempt=2))
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_attempt")

    def test_a_producer_stays_with_its_attempt(self, run: Run, event: Make, send: Send) -> None:
        send(event(1))
        Attempt.objects.create(run=run, number=2, submission_id="two")
        assert send(event(2, attempt=2)).json()["errors"] == {"attempt": "producer p1 belongs to attempt 1"}

    def test_an_old_attempt_is_heard_and_sent_home(self, run: Run, event: Make, send: Send) -> None:
        Attempt.objects.create(run=run, number=2, submission_id="two")
        answer = send(event(1), event(2, type="heartbeat", iteration=9))
        assert answer.json() == {"acknowledged": 2, "command": "exit"}
        run.refresh_from_db()
        assert steps(run) == [1]
        assert run.iteration == 0

    def test_a_stop_is_passed_on(self, run: Run, event: Make, send: Send) -> None:
        run.stop_requested = "stop"
        run.save()
        assert send(event(1)).json()["command"] == "stop"


class TestTokens:
    def test_no_token_and_wrong_token(self, event: Make, send: Send) -> None:
        for secret in ("", "nonsense"):
            answer = send(event(1), secret=secret)
            assert answer.status_code == 401
            assert answer["WWW-Authenticate"] == "Bearer"
            assert answer.json() == {"code": "unauthenticated", "detail": "a valid bearer token is required"}

    def test_the_scheme_is_bearer(self, run: Run, token: str) -> None:
        for header in (f"Bearer {token}", f"bearer  {token} "):
            check_token(header, run.pk)
        for header in (f"Basic {token}", f"Bearer {token} {token}", token, "Bearer ", ""):
            with pytest.raises(IngestRejected):
                check_token(header, run.pk)

    def test_another_runs_token(self, run: Run, event: Make, send: Send) -> None:
        other = Run.objects.create(project=run.project, owner=run.owner, name="o", config={}, iterations=1)
        secret = token_create(run.owner, "ingest", ["ingest"], run_id=other.pk)[1]
        answer = send(event(1), secret=secret)
        assert answer.status_code == 403
        assert answer.json() == {"code": "forbidden", "detail": "this token cannot write events of this run"}

    def test_a_token_that_only_reads(self, run: Run, event: Make, send: Send) -> None:
        assert send(event(1), secret=token_create(run.owner, "x", ["read"])[1]).status_code == 403

    @pytest.mark.parametrize("scope", ["launch", "ingest"])
    def test_a_persons_token_writes_where_they_may_edit(
        self, run: Run, event: Make, send: Send, stranger: User, scope: str
    ) -> None:
        secret = token_create(stranger, "x", [scope])[1]
        assert send(event(1), secret=secret).status_code == 403
        membership = Membership.objects.create(user=stranger, project=run.project, level="viewer")
        assert send(event(1), secret=secret).status_code == 403
        membership.level = "editor"
        membership.save()
        assert send(event(1), secret=secret).status_code == 200

    def test_a_run_that_is_not_there(self, run: Run, event: Make, send: Send) -> None:
        answer = send(event(1, run="gone"), secret=token_create(run.owner, "x", ["ingest"])[1], run_id="gone")
        assert answer.status_code == 403


class TestBodies:
    def test_encodings(self, event: Make, post: Send) -> None:
        body = json.dumps(event(1)).encode()
        assert post(body).status_code == 200
        assert post(body + b"\n").status_code == 200
        assert post(gzip.compress(body), "gzip").status_code == 200
        assert post(zstandard.compress(body), "zstd").status_code == 200
        chunked = zstandard.ZstdCompressor(write_content_size=False).compress(body)
        assert post(chunked, "zstd").status_code == 200
        assert post(body, "br").status_code == 400

    @pytest.mark.parametrize("encoding", ["zstd", "gzip"])
    def test_bombs_are_refused(self, post: Send, encoding: str) -> None:
        bomb = b"\n" * (limits.MAX_EXPANDED + 1)
        packed = gzip.compress(bomb) if encoding == "gzip" else zstandard.compress(bomb)
        assert len(packed) < 100_000
        assert post(packed, encoding).status_code == 413

    def test_a_bomb_that_hides_its_size_is_refused(self, post: Send) -> None:
        compressor = zstandard.ZstdCompressor(write_content_size=False)
        assert post(compressor.compress(b"\n" * (limits.MAX_EXPANDED + 1)), "zstd").status_code == 413

    def test_too_much_at_once(self, post: Send) -> None:
        answer = post(os.urandom(limits.MAX_BODY + 1))
        assert answer.status_code == 413
        assert answer.json() == {"code": "too_large", "detail": f"at most {limits.MAX_BODY} bytes at once"}
        assert post(b"{}\n" * (batches.MAX_EVENTS + 1)).status_code == 413

    def test_the_largest_body_is_read_to_its_end(self, event: Make, post: Send) -> None:
        line = json.dumps(event(1)).encode()
        assert post(line.rjust(limits.MAX_BODY)).json()["acknowledged"] == 1

    def test_a_large_body_is_not_read_while_another_is_stored(
        self, event: Make, post: Send, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PATIENCE", 0.01)
        line = json.dumps(event(1)).encode()
        with limits.Room() as other:
            other.claim(limits.LARGE + 1)
            assert post(line.rjust(limits.LARGE + 1)).status_code == 503
            assert post(line.rjust(limits.LARGE)).status_code == 200

    @pytest.mark.parametrize("encoding", ["zstd", "gzip"])
    def test_a_cut_off_body_stores_nothing(self, run: Run, event: Make, post: Send, encoding: str) -> None:
        body = b"".join(json.dumps(event(seq)).encode() + b"\n" for seq in range(1, 400))
        packed = gzip.compress(body) if encoding == "gzip" else zstandard.compress(body)
        for end in (0, 3, len(packed) // 2, len(packed) - 1):
            assert post(packed[:end], encoding).status_code == 400
        assert not Block.objects.exists()

    def test_only_post(self, post: Send, client: Any, run: Run) -> None:
        assert client.get(f"/api/v1/runs/{run.pk}/events/").status_code == 405


HOSTILE: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 2**64, 10**40, 1e308, -1.5, "", "x", "NaN", "\0", "\ud800", "x" * 30_000, "'; DROP TABLE",
    [], [[]], [None], {}, {"a": {}}, {"": ""}, {"\0": "\0"}, ["NaN"] * 3, {"a" * 300: 1}, {"a b\n": 1},
]  # fmt: skip


def bodies(event: Make) -> list[bytes]:
    """Every field of every kind of event replaced by every hostile value, and bytes that are no events at all."""
    turn = {
        "index": 0, "role": "r", "policy": "p", "messages": [{"role": "user", "content": "x"}], "prompt_ids": [1],
        "executed": 0, "candidates": [{
            "text": "a", "token_ids": [1], "tokens": ["a"], "logprobs": [0.0], "versions": [0], "stop_reason": "stop",
            "local_reward": 0.0, "team_reward": 0.0, "reward": 0.0,
        }],
    }  # fmt: skip
    kinds: list[dict[str, Any]] = [
        {},
        {"type": "log", "level": "info", "source": "s", "message": "m"},
        {"type": "heartbeat", "iteration": 1},
        {"type": "status", "state": "running", "iteration": 1, "message": "", "facts": {"packages": {}}},
        {"type": "phase", "worker": "w", "phase": "rollout", "policy": "", "iteration": 1, "start": 1.0, "end": 2.0},
        {"type": "checkpoint", "iteration": 1, "path": "checkpoints/iteration-000001", "bytes": 1, "metrics": {}, "best": True},
        {"type": "episode_annotation", "episode": "e", "turns": [{"turn": 0, "advantages": [0.5]}], "stages": {}},
        {
            "type": "episode", "episode": "e", "iteration": 1, "kind": "train", "probe": False, "task": "t", "title": "t",
            "outcome": "o", "success": True, "failed": False, "error": "", "truncated": False, "episode_return": 1.0,
            "rewards": {"r": 1.0}, "versions": {"p": 0}, "tokens": 1, "started": 1.0, "ended": 2.0, "turns": [turn],
            "final_board": {"kind": "grid"},
        },
    ]  # fmt: skip
    made = [
        b"", b"\n", b"\xff\xfe", b"null", b"[1]", b"{}", b"[" * 100_000, b'{"a":' * 100_000, b"{} {}", b"\x00" * 50,
    ]  # fmt: skip
    for kind in kinds:
        good = event(1, **kind)
        for name in good:
            made += [json.dumps(good | {name: value}).encode() for value in HOSTILE]
            made.append(json.dumps({key: value for key, value in good.items() if key != name}).encode())
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    made.append(json.dumps(event(1, type="status", state="running", iteration=1, facts=deep)).encode())
    return made


@pytest.mark.slow
def test_no_body_is_too_odd(event: Make, run: Run) -> None:
    """Whatever is sent is stored, or refused by an answer that says what is wrong; nothing else is raised."""
    stored = 0
    for body in bodies(event):
        try:
            batch_store(run.pk, body, "")
        except IngestRejected as rejected:
            assert rejected.status in (400, 404, 409, 413), body[:300]
            json.dumps(rejected.payload)
        else:
            stored += 1
            Producer.objects.all().delete()
    assert stored > 20
