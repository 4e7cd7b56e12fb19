"""Secrets are recognised by their form, their place or their name, and ordinary text stays as it is."""

import shlex

import pytest

from workers.provenance.collecting import command_line
from workers.provenance.redaction import MASK, values_without_secrets, without_secrets

X = "s3cr3t-Abc9xyzQ"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
BASE64 = "MIIEpAIBAAKCAQEAx4Uhj9"


@pytest.mark.parametrize(
    "words",
    [
        f"--wandb_key {X}", f"--key {X}", f"--openai-key {X}", "--pass hunter2", "--password correct", "--token horse",
        f"--credential={X}", f"client.private_key={X}", f"judge.key={X}", f"HF_TOKEN={X}", f"--api-key={X}",
        f"-H 'Authorization: Basic {X}'", f"-u ada:{X}", f"https://{X}@git.example/lab.git",
    ],
)  # fmt: skip
def test_a_command_has_no_secrets(words: str) -> None:
    command = command_line(["train.py", *shlex.split(words), "--seed", "1"])
    assert MASK in command and command.endswith(" --seed 1")
    assert not {X, "hunter2", "correct", "horse"} & set(command.replace("=", " ").replace("'", " ").split())
    assert X not in command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"troupe launch x --api-key {X}", f"troupe launch x --api-key {MASK}"),
        (f"client.private_key={X} run.seed=1", f"client.private_key={MASK} run.seed=1"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrst1234 run", f"HF_TOKEN={MASK} run"),
        ("use sk-proj-abcdef0123456789abcd", f"use {MASK}"),
        ("AKIAIOSFODNN7EXAMPLE", MASK),
        ("(ghp_abcdefghijklmnop0123456789)", f"({MASK})"),
        ("xoxb-123456789012-abcdefghij", MASK),
        (f"as {JWT},", f"as {MASK},"),
        ("+password: 'correct horse'", f"+password: '{MASK}'"),
        ("+api_key: str = 'abcdefgh'", f"+api_key: str = '{MASK}'"),
        ('{"api_key": "abcdefgh"}', f'{{"api_key": "{MASK}"}}'),
        (f"AccountKey={X};a=b", f"AccountKey={MASK};a=b"),
        (f"Authorization: Basic {X}", f"Authorization: Basic {MASK}"),
        (f'{{"authorization": "Basic {X}"}}', f'{{"authorization": "Basic {MASK}"}}'),
        (f"https://ada:{X}@git.example/", f"https://ada:{MASK}@git.example/"),
        (f"https://{X}@git.example/", f"https://{MASK}@git.example/"),
        (f"https://x.example/?access_token={X}&b=1", f"https://x.example/?access_token={MASK}&b=1"),
        (f"curl -u ada:{X} https://x.example", f"curl -u ada:{MASK} https://x.example"),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n+{BASE64}\n+-----END RSA PRIVATE KEY-----\n next",
            f"{MASK}\n+{MASK}\n+{MASK}\n next",
        ),
        (f"-----BEGIN PRIVATE KEY-----\n+{BASE64}\n+x = 1", f"{MASK}\n+{MASK}\n+x = 1"),
    ],
)
def test_values_that_look_like_secrets(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
    assert without_secrets(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "--tokens 512 --max_tokens=4096 rollout.max_tokens=4096",
        "--key eval/success_v2 --sort-key name --pass 2",
        "tokenizer=AutoTokenizer.from_pretrained(name)",
        "+token_ids = tokenizer(text)",
        "pad_token='<|endoftext|>'",
        "sorted(rows, key=lambda row: row.x1)",
        "def f(token: str, key: int = 3) -> None:",
        "api_key=os.environ['OPENAI_API_KEY']",
        "password = getpass.getpass()",
        "reward.key_variable=OPENAI_API_KEY",
        "cache_key = name.partition('.')[0]",
        "index 83db48f..bf2a1c7 100644",
        "commit 83db48f1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7",
        "git@github.com:ada/lab.git ssh://git@github.com/ada/lab.git https://github.com/ada/lab.git",
        "docker run -u 1000:1000 image",
        "sk-learn-contrib-package-name troupe_client_reporting_importing",
        "bearer of news",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_ordinary_options_stay() -> None:
    words = [
        "--tokens",
        "512",
        "--key",
        "eval/success_v2",
        "--sort-key",
        "name",
        "--pass",
        "2",
        "judge.key_variable=NAME",
        "pwd=/home/ada",
    ]
    assert command_line(["train.py", *words]) == shlex.join(["train.py", *words])


def test_the_config_of_a_program_has_no_secrets() -> None:
    config = {
        "api_key": "abc", "lr": 1e-3, "judge/key": X, "sort_key": "loss", "max_tokens": 5, "pwd": "/home/ada/lab",
        "tokenizer": "gpt2", "nested": [{"url": f"https://u:{X}@host/"}, "a"],
    }  # fmt: skip
    assert values_without_secrets(config) == config | {
        "api_key": MASK, "judge/key": MASK, "nested": [{"url": f"https://u:{MASK}@host/"}, "a"],
    }  # fmt: skip
