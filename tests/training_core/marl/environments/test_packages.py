"""Packages of some environments: imported only by them, and missed with a remedy."""

import subprocess
import sys

import pytest

from training_core.errors import ConfigError
from training_core.marl.environments.config import (
    GymnasiumVector,
    MarlEnvironment,
    PettingZoo,
    SimpleCrypto,
    SimpleForaging,
    SimpleSpread,
    SuperSuit,
    Vmas,
)
from training_core.marl.environments.registry import make_environments

LIGHT = """
import sys
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.config import ToySimpleSpread
from training_core.marl.environments.registry import make_environments
make_environments(ToySimpleSpread(), 2).reset(0)
make_environments(SimpleSpread(), 2).reset(0)
heavy = {"gymnasium", "pettingzoo", "mpe2", "pygame", "supersuit", "vmas", "torch", "ray"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy)) or 0)
"""


def test_native_environments_import_none_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


STACKED = SuperSuit(frame_stack=2)


@pytest.mark.parametrize(
    ("section", "missing"),
    [
        (GymnasiumVector(), "gymnasium"),
        (Vmas(), "vmas"),
        (SimpleForaging(type="simple_foraging_pz"), "pettingzoo"),
        (PettingZoo(path="mpe2.simple_v3:parallel_env"), "pettingzoo"),
        (SimpleCrypto(), "mpe2"),
        (SimpleSpread(backend="mpe2", supersuit=STACKED), "supersuit"),
    ],
    ids=lambda value: getattr(value, "type", value),
)
def test_a_package_that_is_missing_is_named_with_the_remedy(
    section: MarlEnvironment, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "--no-deps supersuit" if missing == "supersuit" else r"'troupe\[marl\]'"
    for name in [name for name in sys.modules if name.partition(".")[0] == missing] + [missing]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"the package {missing} is not installed; pip install {remedy}"):
        make_environments(section, 1)
