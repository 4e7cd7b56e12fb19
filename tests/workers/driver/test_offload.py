"""A run in one process whose policies offload: during updates no engine has a store, and the results are the same."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, small_config
from training_core.llm.learning.learner import Learner
from workers.actors.policy_workers import UpdateWorker
from workers.driver.attempt import run_attempt
from workers.driver.local_backends import LocalBackend, LocalPolicy
from workers.protocol import Attempt

ENGINE = {"type": "torch", "static_shapes": "on"}


@pytest.mark.slow
def test_no_engine_has_a_store_during_updates(
    little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies: dict[str, LocalPolicy] = {}
    start, update, make = LocalBackend.start, UpdateWorker.update, Learner.__init__
    stores: list[int] = []

    def started(backend: LocalBackend, *args: Any) -> Any:
        policies.update(backend._policies)  # type: ignore[arg-type]
        return start(backend, *args)

    def updated(*args: Any) -> Any:
        stores.extend(len(policy.engine._idle_stores) for policy in policies.values())  # type: ignore[attr-defined]
        return update(*args)

    monkeypatch.setattr(LocalBackend, "start", started)
    monkeypatch.setattr(UpdateWorker, "update", updated)
    curves = []
    for offloads in (False, True):

        def made(learner: Learner, *args: Any, offloads: bool = offloads) -> None:
            make(learner, *args)
            learner.offloads = offloads

        monkeypatch.setattr(Learner, "__init__", made)
        stores.clear()
        config = small_config(
            little_model,
            policies__planner__engine=ENGINE,
            policies__executor__engine=ENGINE,
            run__iterations=1,
        )
        folder = tmp_path / str(offloads)
        assert run_attempt(Attempt(config, "r", 1, folder, tmp_path), local=True) == 0
        assert stores == [0 if offloads else 1] * 4, "of two policies, before the update of each"
        curves.append(curve(folder))
    assert curves[0] == curves[1]
