"""The tiny base model: a small Llama, warm-started for an environment in seconds, saved as a normal Hugging Face folder.

It is created once per environment setting and cached below <home>/models/; then it is loaded like any other model.
troupe.json in its folder describes how it was created and its results on the held-out tasks.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from training_core.checkpoints import write_errors_explained
from training_core.config.run import Environment
from training_core.errors import ModelError
from training_core.llm.base_models.folder_creation import FACTS, Progress, create_once, silent
from training_core.llm.environments.registry import types_with_warm_start, warm_start_of
from training_core.llm.models.shape import ModelShape, shape_from

CONTEXT = 256
"""Positions of the tiny model."""
SPECIAL = {
    "pad": "<pad>",
    "unk": "<unk>",
    "eos": "<eos>",
    "system": "<system>",
    "user": "<user>",
    "assistant": "<assistant>",
}
"""Special tokens of the tiny model's vocabulary, by purpose."""
_WARM_START_SHARE = 0.9
"""Share of the warm start in the reported progress; the rest is the evaluation."""


class TinyRecipe(BaseModel):
    """How the tiny model is created; a change creates a new folder."""

    revision: int = 10
    """Increased when the demonstrations change."""
    hidden_size: int = 64
    layers: int = 3
    heads: int = 4
    steps: int = 400
    batch: int = 48
    learning_rate: float = 3e-3
    seed: int = 0

    @property
    def intermediate_size(self) -> int:
        """Width of a feed-forward block."""
        return 4 * self.hidden_size


def tiny_shape(environment: Environment) -> ModelShape:
    """Sizes of the tiny model before it is created. Raises ModelError if there is none for the environment."""
    check_is_supported(environment)
    recipe = TinyRecipe()
    words = warm_start_of(environment.type).vocabulary(environment)
    return shape_from(
        {
            "num_hidden_layers": recipe.layers,
            "hidden_size": recipe.hidden_size,
            "num_attention_heads": recipe.heads,
            "intermediate_size": recipe.intermediate_size,
            "vocab_size": len(SPECIAL) + len(words),
            "max_position_embeddings": CONTEXT,
        }
    )


def tiny_folder(environment: Environment, home: Path, recipe: TinyRecipe | None = None) -> Path:
    """The folder of an environment's tiny model, whether it exists or not."""
    inputs = {
        "environment": environment.model_dump(mode="json"),
        "recipe": (recipe or TinyRecipe()).model_dump(),
    }
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]
    return home / "models" / f"tiny-{environment.type}-{digest}"


def ensure_tiny(environment: Environment, home: Path, progress: Progress = silent) -> Path:
    """The tiny model's folder, created first if it is missing. Safe for concurrent processes.

    Raises ModelError if the environment has no demonstrations, or if the folder cannot be written.
    """
    check_is_supported(environment)
    folder = tiny_folder(environment, home)
    with write_errors_explained(f"the tiny model to {folder}", ModelError):
        return create_once(folder, lambda draft, report: _make(environment, draft, report), progress)


def check_is_supported(environment: Environment) -> None:
    """Raises ModelError if the environment has no demonstrations."""
    if environment.type not in types_with_warm_start():
        supported = ", ".join(types_with_warm_start())
        raise ModelError(
            f'there is no "tiny" model for {environment.type!r} (it exists for {supported})',
            remedy="set policies.*.model to a Hugging Face folder or hub id",
        )


def read_facts(folder: Path | str) -> dict[str, Any]:
    """Facts about a base model created by Troupe; empty for others."""
    path = Path(folder) / FACTS
    facts: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return facts


def _make(environment: Environment, draft: Path, progress: Progress) -> dict[str, Any]:
    """Write the tiny model into `draft`; return the facts about it."""
    from training_core.llm.base_models.warm_start import (
        evaluate_model,
        make_tiny,
    )  # imports torch, which takes seconds and is only needed here

    started = time.time()
    facts = make_tiny(
        environment, TinyRecipe(), draft, lambda done, text: progress(done * _WARM_START_SHARE, text)
    )
    progress(_WARM_START_SHARE, "base model plays the held-out tasks")
    facts["evaluation"] = evaluate_model(environment, draft)
    facts["seconds"] = round(time.time() - started, 1)
    progress(1.0, "base model ready")
    return facts
