"""Make a preset's base models before its first run: `python -m workers.base_model PRESET HOME`.

`up` runs it in parallel with everything else, so that the first run finds its model ready.
"""

import sys
from pathlib import Path

from training_core.config.files import load_config


def main(preset: str, home: Path) -> None:
    """Make the models that do not exist yet. Does nothing if the preset has none."""
    config = load_config(preset)
    from training_core.llm.base_models.registry import resolve_model

    for name in dict.fromkeys(config.models.values()):
        resolve_model(name, config.environment, home, _print_progress)


def _print_progress(done: float, text: str) -> None:
    sys.stderr.write(f"{done:4.0%} {text}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
