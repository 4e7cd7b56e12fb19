"""A served checkpoint, with the real clients of OpenAI: roles are models, answers are those of the policies' own weights."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.workers.jobs.test_language_models import latest, trained
from training_core.config.files import load_config, to_toml
from training_core.errors import CheckpointError, ConfigError
from training_core.llm.models.loading import load_model, load_tokenizer
from workers.jobs.serving import ServedTeam, checkpoint_config, served_team

__all__ = ["trained"]
ASK: Any = [{"role": "user", "content": "goal 1 right"}]


@pytest.fixture(scope="module")
def team(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTeam]:
    scratch = tmp_path_factory.mktemp("serving")
    with served_team(latest(trained), trained.parent, scratch, key="secret", greedy=True) as opened:
        yield opened


def client(team: ServedTeam, key: str = "secret") -> openai.OpenAI:
    return openai.OpenAI(base_url=team.url, api_key=key, max_retries=0)


def greedy(folder: Path, prompt: list[int], most: int) -> list[int]:
    """The most likely tokens, by a loop over the whole text."""
    import torch

    model, ids = load_model(folder).eval(), list(prompt)
    stop = load_tokenizer(folder).eos_token_id
    with torch.no_grad():
        while len(ids) - len(prompt) < most:
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == stop:
                break
    return ids[len(prompt) :]


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_a_role_answers_with_its_own_weights(team: ServedTeam, trained: Path, role: str) -> None:
    folder = latest(trained) / role
    answer = client(team).chat.completions.create(model=role, messages=ASK, max_tokens=4)
    tokenizer = load_tokenizer(folder)
    prompt = tokenizer.apply_chat_template(ASK, add_generation_prompt=True, tokenize=True, return_dict=False)
    expected = tokenizer.decode(greedy(folder, list(prompt), 4), skip_special_tokens=True).strip()
    assert (answer.choices[0].message.content or "").strip() == expected and answer.model == role
    assert answer.usage is not None and answer.usage.prompt_tokens == len(prompt)
    again = client(team).chat.completions.create(model=role, messages=ASK, max_tokens=4)
    assert again.choices[0].message.content == answer.choices[0].message.content, (
        "no call continues another one"
    )


def test_models_streams_and_the_responses_api(team: ServedTeam) -> None:
    asked = client(team)
    assert [model.id for model in asked.models.list()] == team.roles == ["planner", "executor"]
    whole = asked.chat.completions.create(model="planner", messages=ASK).choices[0].message.content
    parts = asked.chat.completions.create(model="planner", messages=ASK, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == whole
    assert asked.responses.create(model="planner", input=ASK).output_text == whole


def test_other_models_and_keys_are_refused(team: ServedTeam) -> None:
    with pytest.raises(openai.NotFoundError, match="use a role: planner, executor"):
        client(team).chat.completions.create(model="gpt", messages=ASK)
    with pytest.raises(openai.AuthenticationError):
        client(team, "other").chat.completions.create(model="planner", messages=ASK)
    assert team.url.startswith("http://127.0.0.1:")


@pytest.mark.extended
def test_the_command_serves_until_it_is_interrupted(trained: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "troupe_client.cli.app",
        "serve",
        str(latest(trained)),
        "--port",
        "0",
        "--json",
    ]
    environment = os.environ | {"TROUPE_HOME": str(trained.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        printed = ""
        while not printed.endswith("}\n") and (line := process.stdout.readline()):
            printed += line
        team = ServedTeam(**json.loads(printed))
        assert [model.id for model in client(team, team.key).models.list()] == ["planner", "executor"]
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


def test_a_download_of_one_policy_serves_its_roles(trained: Path, tmp_path: Path) -> None:
    shutil.copy(trained / "config.toml", tmp_path)
    with pytest.raises(CheckpointError, match="no policy planner"), served_team(tmp_path, tmp_path, tmp_path):
        pass
    shutil.copytree(latest(trained) / "executor", tmp_path / "executor")
    with served_team(tmp_path, tmp_path, tmp_path) as opened:
        assert opened.roles == ["executor"]


def test_a_downloaded_folder_has_its_config(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "downloaded"
    shutil.copytree(latest(trained), folder)
    with pytest.raises(CheckpointError, match=r"has no config\.toml"):
        checkpoint_config(folder)
    shutil.copy(trained / "config.toml", folder)
    assert checkpoint_config(folder) == checkpoint_config(latest(trained))
    (folder / "config.toml").write_text(to_toml(load_config("spread_mappo")))
    with pytest.raises(ConfigError, match="small networks"):
        checkpoint_config(folder)
