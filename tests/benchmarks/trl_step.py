"""The other side of llm_step: TRL's GRPOTrainer, run by a Python that has TRL (`make trl`).

    PYTHON -m tests.benchmarks.trl_step MODEL_FOLDER SHAPE_AS_JSON SETTING

Imports nothing of Troupe's. Reads one line per step from standard input; after each it prints the step's CPU seconds
and wall seconds. A step is all that the trainer does from one optimiser step to the next: sampling, rewards, update.
"""

import json
import sys
import time
import warnings
from typing import Any

import torch

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {"gradient_checkpointing": True},
    "fp32, one micro-batch": {},
    "bf16 weights, one micro-batch": {"dtype": "bfloat16"},
    "bf16 autocast, one micro-batch": {"bf16": True},
    "fp32, micro-batches of 64": {"micro": 64},
    "fp32, static cache": {"cache_implementation": "static"},
}
"""What is tried; the first with TRL's own micro-batch of 8 and its checkpointing, the others without."""


def make_trainer(folder: str, shape: dict[str, int], setting: str) -> Any:
    """A trainer whose step samples `prompts` x `candidates` answers and makes one optimiser step on all of them."""
    import datasets
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Pace(TrainerCallback):
        """Lets a step begin when a line comes, and tells what it took."""

        def on_step_end(self, *args: Any, **more: Any) -> None:
            now = (time.process_time(), time.perf_counter())
            if hasattr(self, "begun"):
                print(
                    json.dumps([end - start for start, end in zip(self.begun, now, strict=True)]), flush=True
                )
            else:
                print("ready", flush=True)  # the first step warms up
            if not sys.stdin.readline():
                raise SystemExit
            self.begun = (time.process_time(), time.perf_counter())

    chosen = dict(SETTINGS[setting])
    total = shape["prompts"] * shape["candidates"]
    micro = 8 if setting == "defaults" else chosen.pop("micro", total)
    dtype = chosen.pop("dtype", "float32")
    config = GRPOConfig(
        output_dir=f"{folder}/trl",
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=total // micro,
        num_generations=shape["candidates"],
        max_completion_length=shape["answer_tokens"],
        max_steps=10**6,
        learning_rate=1e-6,
        beta=0.0,
        loss_type="grpo",
        temperature=1.0,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        optim="adamw_torch_fused",
        seed=0,
        **{"gradient_checkpointing": False, "bf16": False} | chosen,
    )
    with open(f"{folder}/prompts.json") as file:
        rows = [{"prompt": prompt} for prompt in json.load(file)]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    return GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **more: [float(len(set(text.split()))) for text in completions],
        args=config,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        callbacks=[Pace()],
    )


def main() -> None:
    """Step by step, until standard input ends."""
    folder, shape, setting = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    make_trainer(folder, shape, setting).train()


if __name__ == "__main__":
    main()
