"""Tokens computed with shared prefixes over those without, in a run of conversations.

    python -m tests.benchmarks.shared_turns [--preset multi_turn_math] [key=value ...]

Runs a preset in this process, with four turns, and counts the tokens of all forward passes of generation and of updates. Without
sharing, every candidate of every turn computes its whole prompt and its answer; the last column counts every distinct prefix of an
update once, over all of its minibatches. Counts do not depend on the machine's load.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training_core.llm.generation.prefix_tree import PrefixTreeStore
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning import packing
from training_core.llm.learning.learner import Learner
from workers.run import main as run

TOKENS: Counter[tuple[str, str]] = Counter()
"""By part and way."""


def main(words: Sequence[str] | None = None) -> None:
    """Run, then print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="multi_turn_math")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    asked = parser.parse_intermixed_args(words)
    count_passes()
    with tempfile.TemporaryDirectory() as home:
        run(
            [
                "--preset", asked.preset, "--home", home, "--folder", str(Path(home) / "run"), "--local",
                "run.iterations=2", "evaluation.every=0", "checkpoint.every=0", *asked.overrides,
            ]
        )  # fmt: skip
    print(
        "| part | tokens computed | of them padding | without sharing | ratio | all prefixes once |\n|---|---|---|---|---|---|"
    )
    for part in ("generation", "update"):
        computed, alone = TOKENS[part, "computed"], TOKENS[part, "alone"]
        print(
            f"| {part} | {computed} | {TOKENS[part, 'padding']} | {alone} | {computed / alone:.2f} | {TOKENS[part, 'least']} |"
        )


def count_passes() -> None:
    """Count the tokens of this process's passes."""
    logits, generate, update = PrefixTreeStore._logits, TorchEngine.generate, Learner.update
    collate = packing.collate

    def counted_logits(store: Any, tokens: Any, *more: Any) -> Any:
        TOKENS["generation", "computed"] += tokens.numel()
        return logits(store, tokens, *more)

    def counted_generate(engine: Any, prompts: Any, *more: Any) -> Any:
        answers = generate(engine, prompts, *more)
        for prompt, candidates in zip(prompts, answers, strict=True):
            for answer in candidates:
                TOKENS["generation", "alone"] += len(prompt.token_ids) + len(answer.token_ids) - 1
        return answers

    def counted_update(learner: Any, groups: Any, *more: Any, **named: Any) -> Any:
        result = update(learner, groups, *more, **named)
        TOKENS["update", "computed"] += int(result.metrics.get("computed_tokens", 0))
        texts = [(*group.prompt_ids, *answer.token_ids[:-1]) for group in groups for answer in group.answers]
        TOKENS["update", "alone"] += sum(map(len, texts))
        TOKENS["update", "least"] += len(
            {text[: length + 1] for text in texts for length in range(len(text))}
        )
        return result

    def counted_batch(rows: Any, *more: Any, **named: Any) -> Any:
        batch = collate(rows, *more, **named)
        TOKENS["update", "padding"] += batch.token_ids.numel() - int(batch.lengths.sum())
        return batch

    for owner, name, counted in (
        (PrefixTreeStore, "_logits", counted_logits),
        (TorchEngine, "generate", counted_generate),
        (Learner, "update", counted_update),
        (packing, "collate", counted_batch),
    ):
        setattr(owner, name, counted)


if __name__ == "__main__":
    main()
