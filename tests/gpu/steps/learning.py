"""Learning: AT-GRPO on plan_path and its control arms, from a base model that the program makes by imitation."""

import json
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from tests.benchmarks.ablation import ARMS, Arm
from tests.gpu.setting import Figures, Setting
from tests.gpu.team import LocalTeam
from tests.gpu.timing import device_name
from training_core.config.files import load_config, parse_overrides
from training_core.config.run import Environment, RunConfig
from training_core.llm.base_models.folder_creation import create_once, silent
from training_core.llm.base_models.tiny import TinyRecipe
from training_core.llm.base_models.warm_start import (
    encode_pairs,
    evaluate_model,
    new_model,
    padded,
    train,
    word_tokenizer,
)
from training_core.llm.environments.registry import warm_start_of
from training_core.llm.models.loading import load_model, load_tokenizer

RECIPE = TinyRecipe(hidden_size=512, layers=8, heads=8, steps=600, batch=64, learning_rate=6e-4)
"""34 million parameters."""
SMALL = TinyRecipe(hidden_size=32, layers=1, heads=2, steps=3, batch=8)
OVERRIDES = ("learning_rate=2e-4", "final_learning_rate=2e-5", "precision=fp32")
"""Of every policy's learner."""
SECONDS = 300.0
"""Training ends after this time, at its next evaluation."""
EVERY, ITERATIONS = 10, 60
KINDS = (("eval", "greedy"), ("eval_sampled", "sampled"))


def make_base(setting: Setting) -> Figures:
    """The base models by imitation of noisy demonstrations; their size and success on the held-out tasks."""
    figures: Figures = {"card": device_name(setting.device)}
    for preset in dict.fromkeys(arm.preset for arm in ARMS.values()):
        facts = json.loads(
            (_base(setting, _config(setting, Arm("", preset), 0).environment) / "troupe.json").read_text()
        )
        figures[preset] = {name: facts[name] for name in ("parameters", "loss", "seconds", "success")}
        setting.note(figures)
    figures["parameters"] = figures["plan_path_duo"]["parameters"]
    return figures


def learn(setting: Setting, arm: str, seed: int) -> Figures:
    """One arm with one seed: success on the held-out tasks by sampled answers, with swapped policies at its end."""
    config = _config(setting, ARMS[arm], seed)
    folder = _base(setting, config.environment)
    models = {name: load_model(folder, "fp32", str(setting.device)) for name in config.used_policies}
    team = LocalTeam(config, models, load_tokenizer(folder), setting.device)
    figures: Figures = {"card": device_name(setting.device), "arm": arm, "seed": seed, "rows": []}
    start, answers = time.monotonic(), 0
    figures["rows"].append({"iteration": 0, "answers": 0} | _evaluated(team, 0))
    for iteration in range(1, config.run.iterations + 1):
        played = team.iterate(iteration)
        answers += played.answers
        last = iteration == config.run.iterations or time.monotonic() - start > SECONDS
        if last or iteration % EVERY == 0:
            row = {"iteration": iteration, "answers": answers, "seconds": time.monotonic() - start}
            figures["rows"].append(row | _evaluated(team, iteration))
            setting.note(figures)
        if last:
            break
    if len(team.engines) > 1:
        names = list(team.engines)
        engines = [team.engines[name] for name in [*names[1:], names[0]]]
        team.engines = dict(zip(names, engines, strict=True))
        figures["swapped"] = _evaluated(team, 0)
    first, final = figures["rows"][0], figures["rows"][-1]
    return figures | {
        "iterations": final["iteration"],
        "greedy_before": first["greedy"],
        "greedy_after": final["greedy"],
        "greedy_gain": final["greedy"] - first["greedy"],
    }


def _evaluated(team: LocalTeam, iteration: int) -> dict[str, float]:
    return {name: team.evaluate(kind, iteration)[f"{kind}/success"] for kind, name in KINDS}  # type: ignore[arg-type]


def _config(setting: Setting, arm: Arm, seed: int) -> RunConfig:
    words = [*arm.overrides, f"run.seed={seed}", f"run.iterations={setting.pick(ITERATIONS, 1)}"]
    if setting.small:
        words += [
            "rollout.tasks=4",
            "rollout.group_size=2",
            "evaluation.episodes=2",
            "evaluation.probes=0",
            "environment.max_turns=1",
        ]
    config = load_config(arm.preset, parse_overrides(words))
    learners = [f"policies.{name}.learner.{word}" for name in config.policies for word in OVERRIDES]
    loaded = load_config(arm.preset, parse_overrides([*words, *learners]))
    assert isinstance(loaded, RunConfig)
    return loaded


def _base(setting: Setting, environment: Environment) -> Path:
    """The base model's folder for an environment, made once."""
    recipe = setting.pick(RECIPE, SMALL)
    folder = setting.folder / f"base-{environment.type}"
    return create_once(folder, lambda draft, progress: _make(setting, environment, recipe, draft), silent)


def _make(setting: Setting, environment: Environment, recipe: TinyRecipe, draft: Path) -> dict[str, Any]:
    start = time.monotonic()
    source = warm_start_of(environment.type)
    tokenizer = word_tokenizer(source.vocabulary(environment))
    pairs = list(islice(source.demonstrations(environment, recipe.seed), recipe.steps * recipe.batch))
    ids, labels = padded(encode_pairs(pairs, tokenizer), int(tokenizer.pad_token_id))
    module: torch.nn.Module = new_model(recipe, tokenizer)
    module.to(setting.device)
    model: PreTrainedModel = module  # type: ignore[assignment]
    loss = train(model, ids, labels, recipe, silent)
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    success = {} if setting.small else evaluate_model(environment, draft, str(setting.device))
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "loss": loss,
        "seconds": time.monotonic() - start,
        "success": {name: success.get(kind, {}).get(f"{kind}/success") for kind, name in KINDS},
        "recipe": recipe.model_dump(),
        "demonstration_noise": source.noise,
    }
