"""A whole AT-GRPO step: two roles play, their policies are updated and their weights published."""

from typing import Any

import torch

from tests.gpu.models import SIZES, TINY, make_model, make_tokenizer
from tests.gpu.setting import Figures, Setting
from tests.gpu.team import LocalTeam, PlayedIteration
from tests.gpu.timing import device_name, peak_memory, reset_peak
from training_core.config.files import parse_config
from training_core.config.run import RunConfig
from training_core.llm.models.flops import peak_of
from training_core.llm.models.fused_kernels import use_fused_kernels

STEPS = 10


def measure_step(setting: Setting, size: str) -> Figures:
    """One shared policy of this size plays two roles in bf16, with a separate copy in its engine; the last of ten steps counts.

    The peak of memory is that of each step: the optimiser's states exist from the second step on.
    """
    sizes = setting.pick(SIZES[size], TINY)
    model = make_model("qwen2", sizes, setting.device, torch.bfloat16)
    fused = use_fused_kernels(model)
    config = _config(setting, sizes.vocabulary)
    reset_peak(setting.device)
    team = LocalTeam(
        config, {"shared": model}, make_tokenizer(sizes.vocabulary), setting.device, separate=True
    )
    figures: Figures = {"size": size, "card": device_name(setting.device), "fused_kernels": fused}
    peaks: list[int] = []
    for iteration in range(1, setting.pick(STEPS, 2) + 1):
        figures |= _figures(setting, team.iterate(iteration))
        peaks.append(peak_memory(setting.device) or 0)
        reset_peak(setting.device)
        figures |= {"peak_bytes": max(peaks), "peaks": peaks}
        if len(peaks) > 1:
            figures["peak_growth"] = peaks[-1] / max(peaks[1], 1)
        setting.note(figures)
    return figures | {"attention": "flex" if team.learners["shared"].forward.blocks else "mask"}


def _figures(setting: Setting, played: PlayedIteration) -> Figures:
    seconds = played.rollout_seconds + played.update_seconds + played.publication_seconds
    result = played.updates["shared"]
    figures: Figures = {
        "seconds": seconds,
        "rollout_seconds": played.rollout_seconds,
        "update_seconds": played.update_seconds,
        "publication_seconds": played.publication_seconds,
        "generated_tokens": played.generated_tokens,
        "trained_groups": result.metrics["trained_groups"],
        "tokens_per_second": played.generated_tokens / seconds,
        "share_of_publication": played.publication_seconds / seconds,
    }
    peak = peak_of(device_name(setting.device), "bf16")
    return figures | ({"mfu": result.flops / played.update_seconds / peak} if peak and result.flops else {})


def _config(setting: Setting, vocabulary: int) -> RunConfig:
    """Two turns of two roles: 32 tasks of 200 words, 8 candidates of at most 256 tokens for each state."""
    tokens = setting.pick(256, 6)
    args: dict[str, Any] = {"words": setting.pick(200, 6), "vocabulary": min(4096, vocabulary - 6)}
    parsed = parse_config(
        {
            "run": {"name": "step", "iterations": 100},
            "team": {
                "roles": {
                    role: {"policy": "shared", "sampling": {"max_tokens": tokens}}
                    for role in ("planner", "executor")
                }
            },
            "policies": {
                "shared": {
                    "model": "tests",
                    "learner": {
                        "precision": "bf16",
                        "learning_rate": 1e-6,
                        "minibatches": 1,
                        "micro_batch_tokens": setting.pick(8_192, 256),
                        "activation_checkpointing": False,
                    },
                }
            },
            "environment": {
                "type": "custom",
                "path": "tests.gpu.word_game:WordGame",
                "max_turns": 2,
                "args": args,
            },
            "workflow": {"type": "turn_tree", "carry": "sampled"},
            "algorithm": {"type": "at_grpo", "kl_coefficient": 0.0},
            "rollout": {"tasks": setting.pick(32, 2), "group_size": setting.pick(8, 3)},
        }
    )
    assert isinstance(parsed, RunConfig)
    return parsed
