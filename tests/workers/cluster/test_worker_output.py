"""The output of workers reaches the run's log under their names, also the last words of a killed one."""

from pathlib import Path

import pytest

from tests.workers.driver.test_custom import OWN, attempt, own
from tests.workers.running import events
from workers.driver.attempt import FAILED, run_attempt

pytestmark = [pytest.mark.ray, pytest.mark.extended]


def test_a_killed_worker_s_last_words_are_in_the_log(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    tree = own(little_model)
    tree["environment"] |= {"path": f"{OWN}:Talk", "args": {"word": "die"}}
    tree["resources"] = {"environment_workers": 1}
    assert run_attempt(attempt(tmp_path, tree), local=False) == FAILED
    lines = [(line["source"], line["level"], line["message"]) for line in events(tmp_path, "log")]
    last = [line for line in lines if line[2] == "the last words"]
    assert len(last) == 6, "the worker and its five replacements"
    assert set(last) == {("environment-0", "output", "the last words")}
    assert ("environment-0", "output", "token=[redacted] is a secret") in lines
    errors = [text for source, level, text in lines if source == "environment-0" and level == "error"]
    assert errors and all(text.endswith("ValueError: printed, not raised") for text in errors)
