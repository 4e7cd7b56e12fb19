"""An iteration of a preset for one GPU in full size, with random weights: its time, and its memory beside the estimate."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from tests.gpu.models import SIZES, TINY, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.timing import device_name
from training_core.config.files import load_config

TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def run_preset(setting: Setting, preset: str) -> Figures:
    """Run it by the driver in one process, as `troupe experiment launch --local` does."""
    from workers.driver.attempt import run_attempt
    from workers.protocol import Attempt

    folder = setting.folder / preset
    shutil.rmtree(folder, ignore_errors=True)
    config = load_config(preset, _overrides(setting, preset, _model(setting, folder / "model")))
    status = run_attempt(Attempt(config, preset, 1, folder / "run", folder), local=True)
    values: dict[str, float] = {}
    for event in _events(folder / "run"):
        if event["type"] == "metrics":
            values |= event["values"]
    figures: Figures = {"preset": preset, "card": device_name(setting.device), "exit_status": status}
    figures |= {"seconds": values["time/iteration"], "rollout_seconds": values["time/rollout"]}
    for policy in config.policies:
        peak, planned = (values.get(f"policy/{policy}/memory_{kind}_gib") for kind in ("peak", "planned"))
        if peak and planned:
            ratio = max(peak / planned, planned / peak)
            figures |= {f"{policy}_peak_gib": peak, f"{policy}_planned_gib": planned}
            figures["peak_and_plan"] = max(ratio, figures.get("peak_and_plan", 1.0))
    shutil.rmtree(folder, ignore_errors=True)
    return figures


def _model(setting: Setting, folder: Path) -> Path:
    """A folder with a random model of 1.7 billion parameters and a tokenizer with a word for each of its tokens."""
    size = setting.pick(SIZES["1.7B"], TINY)
    make_model("qwen2", size, setting.device, torch.bfloat16).save_pretrained(folder)
    tokenizer = make_tokenizer(size.vocabulary)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def _overrides(setting: Setting, preset: str, model: Path) -> dict[str, Any]:
    changes: dict[str, Any] = {"run.iterations": 1, "evaluation.every": 0}
    config = load_config(preset)
    changes |= {f"policies.{name}.model": str(model) for name in config.policies}
    changes |= {f"team.roles.{role}.chat_template_kwargs": {} for role in config.team.roles}
    if setting.small:
        changes |= {"rollout.tasks": 2, "environment.max_turns": 2}
        changes |= {f"team.roles.{role}.sampling.max_tokens": 6 for role in config.team.roles}
        changes |= {f"policies.{name}.devices.rollout_gpus": 0 for name in config.policies}
    return changes


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for spool in sorted((folder / "attempt-1" / "spool").glob("*.jsonl")):
        yield from map(json.loads, spool.read_text().splitlines())
