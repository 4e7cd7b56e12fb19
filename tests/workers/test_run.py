"""The entry point: arguments and configs that cannot be run are refused before anything heavy is imported."""

from pathlib import Path

import pytest

from training_core.config.files import load_config, parse_config, read_preset, to_toml
from workers import run
from workers.protocol import Attempt
from workers.storage.folders import RunFolder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "nothing_like_it"], "no preset 'nothing_like_it'; presets are plan_path_duo"),
        (["--preset", "plan_path_duo", "run.iterations=none"], "run.iterations: "),
        (["--preset", "plan_path_duo", "run.colour=red"], "run.colour: there is no such field"),
        (["--preset", "plan_path_duo", "team.roles.planner.policy=judge"], "there is no policy 'judge'"),
        (["run.iterations=2"], "name one config file or one --preset"),
        (["missing.toml"], "No such file"),
        (
            ["--preset", "plan_path_duo", "--local", "--seeds", "0..1"],
            "language models are not trained together",
        ),
        (["--preset", "recall_mappo_gru", "--local", "--seeds", "0..1"], "networks other than mlp are not"),
        (["--preset", "spread_mappo", "--local", "--seeds", "1,1"], "has the same value twice"),
        (["--preset", "spread_mappo", "--local", "--seeds", "1,1.0"], "has the same value twice"),
        (
            ["--preset", "tag_mappo", "--local", "--seeds", "0,1", "team.roles.good.policy=adversaries"],
            "team.roles",
        ),
        (["--preset", "spread_mappo", "--local", "--seeds", "1,x"], "run.seed: "),
        (
            ["--preset", "spread_mappo", "--seeds", "0..1"],
            "needs --local: on a server use troupe sweep launch",
        ),
        (["--preset", "spread_mappo", "--local", "--seeds", "0,1", "--folder", "f"], "belongs to one run"),
        (["missing.toml", "--local", "run.iterations=2"], "No such file"),
        (["/absent/config.toml", "--ingest-url", "http://x"], "does not see the server's folder /absent"),
        (["--member", "run", "1", "/absent", "http://x"], "does not see the server's folder /absent"),
    ],
)
def test_bad_configs_are_refused_with_a_remedy(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(words) == run.USAGE_ERROR
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("as_member", [False, True])
def test_the_token_of_an_attempt_is_in_its_folder(
    as_member: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(to_toml(parse_config(read_preset("spread_mappo"))))
    monkeypatch.setenv("TROUPE_HOME", "")  # which the program changes
    RunFolder(tmp_path).write_token(3, "s3cret")
    got: list[Attempt] = []

    def played(attempts: Attempt | list[Attempt], **_: bool) -> int:
        got.extend(attempts if isinstance(attempts, list) else [attempts])
        return 0

    monkeypatch.setattr("workers.driver.attempt.run_attempt", played)
    monkeypatch.setattr("workers.driver.seeds.run_members", played)
    words = [
        str(tmp_path / "config.toml"),
        "--folder",
        str(tmp_path),
        "--attempt",
        "3",
        "--ingest-url",
        "http://x",
    ]
    if as_member:
        words = ["--member", "r", "3", str(tmp_path), "http://x"]
    assert run.main([*words, "--home", str(tmp_path)]) == 0
    assert [attempt.ingest_token for attempt in got] == ["s3cret"]


def test_an_invalid_file_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.toml").write_text("[run\n")
    assert run.main([str(tmp_path / "broken.toml")]) == run.USAGE_ERROR
    assert "not valid TOML" in capsys.readouterr().err


def test_overrides_may_follow_options_after_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`troupe run FILE key=value` and docs/train/custom.md write them there."""
    (tmp_path / "run.toml").write_text(to_toml(load_config("plan_path_duo")))
    words = [str(tmp_path / "run.toml"), "--local", "run.iterations=none", "--home", str(tmp_path)]
    assert run.main(words) == run.USAGE_ERROR
    assert "run.iterations: " in capsys.readouterr().err
