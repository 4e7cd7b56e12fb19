"""Causes and remedies of errors: as one text, apart, and after pickling, as Ray does it between processes."""

import importlib
import pickle

import pytest
from pydantic import ValidationError

from training_core.config.errors import error_messages
from training_core.config.run import RunConfig
from training_core.errors import (
    Advice,
    CheckpointError,
    ConfigError,
    InvalidValue,
    PromptTooLong,
    RequestRefused,
    TroupeError,
    import_cause,
)


@pytest.mark.parametrize(
    ("cause", "remedy", "text"),
    [
        ("no weights", "set the folder", "no weights; set the folder"),
        ("no weights.", "Set the folder", "no weights. Set the folder"),
        ("vLLM is not installed:", "pip install vllm", "vLLM is not installed: pip install vllm"),
        ("disk quota: use at 100 percent", "", "disk quota: use at 100 percent"),
    ],
)
def test_an_error_has_cause_and_remedy_as_one_text_and_apart(cause: str, remedy: str, text: str) -> None:
    error = CheckpointError(cause, remedy=remedy)
    assert str(error) == text
    assert (error.advice.cause, error.advice.remedy) == (cause, remedy)


@pytest.mark.parametrize(
    "error",
    [
        CheckpointError("no weights", remedy="set the folder"),
        InvalidValue("seed: is odd", remedy="use an even one"),
        PromptTooLong("a long prompt", (1, 2), remedy="shorten it"),
        RequestRefused("no body", 404, "gone"),
        ConfigError({"run.seed": "is odd"}, remedy="use an even one"),
        ConfigError({"run.seed": Advice("is odd", "use an even one"), "run.name": "is long"}),
    ],
)
def test_a_pickled_error_keeps_its_remedy(error: TroupeError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert again.advice.remedy == error.advice.remedy
    assert {**vars(again)} == {**vars(error)}


def test_fields_keep_their_remedies_below_a_section() -> None:
    error = ConfigError({"seed": "is odd"}, remedy="use an even one").below("run")
    assert str(error) == "run.seed: is odd; use an even one"
    assert error.advice.cause == "run.seed: is odd"


@pytest.mark.parametrize(
    ("tree", "path", "cause", "remedy"),
    [
        (
            {"team": {"roles": {"a": {"policy": "nobody"}}}},
            "team.roles.a.policy",
            "there is no policy 'nobody'",
            "add [policies.nobody] or use one of p",
        ),
        (
            {"environment": {"type": "nowhere"}},
            "environment.type",
            "there is no type 'nowhere'",
            "use one of ",
        ),
    ],
)
def test_a_configs_checks_keep_their_remedies(
    tree: dict[str, object], path: str, cause: str, remedy: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        RunConfig.model_validate({"policies": {"p": {"model": "tiny"}}} | tree)
    message = error_messages(caught.value, RunConfig)[path]
    assert isinstance(message, Advice) and message.cause == cause and message.remedy.startswith(remedy)


def test_the_cause_of_a_failed_import_is_what_is_missing() -> None:
    with pytest.raises(ImportError) as caught:
        importlib.import_module("no_such_package.inner")
    assert import_cause(caught.value) == "the package no_such_package is not installed"
    broken = ImportError("libcudart.so.13: cannot open shared object file\nmore")
    assert import_cause(broken) == "libcudart.so.13: cannot open shared object file"
