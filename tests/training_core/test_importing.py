"""Objects by import path: found, made once, and errors that say what to do."""

from pathlib import Path

import pytest

from training_core.errors import ConfigError
from training_core.importing import load_object, made


def test_nested_names_are_found() -> None:
    assert load_object("pathlib:Path") is Path
    assert load_object("pathlib:Path.home") == Path.home


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("pathlib.Path", "is not an import path; write package.module:Name"),
        (
            "no_such_package.rewards:score",
            "there is no module 'no_such_package'; install the package on the machine",
        ),
        ("pathlib:Pth", "pathlib has no 'Pth'; it has"),
        ("tests.training_core.broken_module:x", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_what_is_not_there_is_told_under_the_field(path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_object(path, "environment.path")
    assert said in caught.value.fields["environment.path"]


def test_classes_are_made_once_and_functions_get_their_arguments() -> None:
    assert made("collections:Counter", {"a": 2}) is made("collections:Counter", {"a": 2})
    assert made("collections:Counter", {"a": 3})["a"] == 3
    assert made("math:prod", {"start": 2})([3, 4]) == 24
    with pytest.raises(ConfigError, match="neither a function nor a class"):
        made("math:pi", {})
    with pytest.raises(ConfigError, match="cannot be constructed with its args"):
        made("fractions:Fraction", {"size": 1})
