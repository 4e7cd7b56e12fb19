"""Make a preset's tiny base model ahead of its first run: `python -m workers.base_model PRESET HOME`.

`up` runs it beside everything else, so that the first run starts with its model at hand.
"""

import sys
from pathlib import Path

from training_core.config.files import load_config
from training_core.config.run import RunConfig


def main(preset: str, home: Path) -> None:
    """Does nothing where the model is there already, or where the preset trains another one."""
    config = load_config(preset)
    if not isinstance(config, RunConfig) or all(
        policy.model != "tiny" for policy in config.policies.values()
    ):
        return
    from training_core.llm.models.tiny import ensure_tiny

    ensure_tiny(config.environment, home, _tell)


def _tell(done: float, text: str) -> None:
    sys.stderr.write(f"{done:4.0%} {text}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
