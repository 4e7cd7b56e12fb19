"""The steps of the program, in the order in which they run."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Bound:
    """A limit that a figure must observe."""

    figure: str
    relation: str
    limit: float
    card_only: bool = False
    """A speed or a size in memory, which is not judged on a CPU."""

    @property
    def text(self) -> str:
        """The bound written out."""
        return f"{self.figure} {self.relation} {self.limit:g}"

    def holds(self, figures: Mapping[str, Any], *, small: bool) -> bool | None:
        """Whether the figures observe it; None if it is not judged. A missing figure fails."""
        if self.card_only and small:
            return None
        value = figures.get(self.figure)
        return isinstance(value, int | float) and RELATIONS[self.relation](value, self.limit)


@dataclass(frozen=True)
class Step:
    """A part of the program, run in a process of its own."""

    run: str
    """"module:function" below tests.gpu.steps: (Setting, **options) -> Figures."""
    about: str
    seconds: int
    """Estimated wall time on one H100."""
    needs: tuple[str, ...] = ()
    """Packages in addition to torch, transformers and pydantic."""
    bounds: tuple[Bound, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


STEPS: dict[str, Step] = {
    "engine": Step(
        "engine:check_engine",
        "Torch engine against the plain model: tokens and logprobs, with and without CUDA graphs",
        60,
        bounds=(
            Bound("greedy_tokens_that_differ", "<=", 0),
            Bound("largest_logprob_error", "<", 1e-3),
            Bound("largest_graph_error", "<", 1e-3),
        ),
    ),
    "packing": Step(
        "packing:check_packing",
        "Packed updates (FlexAttention, explicit mask) against updates of single rows",
        120,
        bounds=(
            Bound("largest_logprob_error", "<", 1e-3),
            Bound("relative_gradient_error", "<", 1e-3),
            Bound("flex_kernels", ">=", 2, card_only=True),
        ),
    ),
    "bf16": Step(
        "precision:check_bf16",
        "bf16 against fp32 with the same weights: logprobs, mismatch and gradient",
        90,
        bounds=(
            Bound("mean_logprob_error", "<", 0.02),
            Bound("mismatch_mean", "<", 0.02),
            Bound("mismatch_kl", "<", 1e-3),
            Bound("gradient_similarity", ">=", 0.99),
        ),
    ),
    "fused_kernels": Step(
        "fused_kernels:check_fused_kernels",
        "Fused kernels against transformers' modules: logprobs and gradients in fp32 and bf16",
        90,
        needs=("liger_kernel",),
        bounds=(
            Bound("models_without", "<=", 0, card_only=True),
            Bound("largest_logprob_error", "<", 1e-3),
            Bound("relative_gradient_error", "<", 1e-3),
            Bound("gradient_similarity", ">=", 0.99),
        ),
    ),
    "lora": Step(
        "lora:check_lora",
        "LoRA: gradients by the chain rule, an unchanged base that two roles share, merged weights",
        60,
        bounds=(
            Bound("relative_gradient_error", "<", 1e-3),
            Bound("largest_merge_error", "<", 1e-4),
            Bound("changed_base_weights", "<=", 0),
        ),
    ),
    "publication": Step(
        "publication:check_publication",
        "The learner's logprobs against the engine's after each publication of weights (fp32; bf16 for information)",
        90,
        bounds=(Bound("largest_logprob_error", "<", 1e-3), Bound("smallest_change", ">=", 1e-3)),
    ),
    "algorithms": Step(
        "algorithms:check_algorithms",
        "Two updates with every algorithm on the device against the CPU",
        90,
        bounds=(Bound("largest_metric_error", "<", 5e-3),),
    ),
    "marl": Step(
        "marl:check_marl",
        "MAPPO and IPPO with MLP, GRU, LSTM and transformer critics on the device against the CPU; a resumed run",
        120,
        bounds=(Bound("largest_metric_error", "<", 5e-3), Bound("resumed_metric_error", "<", 5e-3)),
    ),
    **{
        f"generation_{size.lower()}": Step(
            "generation:measure_generation",
            f"Generation with {size} parameters: tokens per second, share of the memory bandwidth",
            seconds,
            options={"size": size},
        )
        for size, seconds in (("0.5B", 120), ("1.7B", 150), ("4B", 200), ("8B", 240))
    },
    **{
        f"update_{size.lower()}": Step(
            "update:measure_update",
            f"Updates of {size} parameters: model FLOPs utilisation",
            seconds,
            bounds=(Bound("mfu", ">=", 0.4, card_only=True),) if size == "1.7B" else (),
            options={"size": size},
        )
        for size, seconds in (("0.5B", 90), ("1.7B", 120), ("4B", 150), ("8B", 200))
    },
    "shared_base": Step(
        "shared_base:measure_shared_base",
        "Memory: two full policies, and four LoRA roles whose base is stored once",
        90,
        bounds=(
            Bound("base_tensors_of_four_roles", "<=", 1),
            Bound("peak_of_four_roles_to_one", "<=", 1.1, card_only=True),
        ),
    ),
    "at_grpo_step": Step(
        "at_grpo_step:measure_step",
        "Ten AT-GRPO steps with 1.7B parameters: rollout, update, publication; memory does not grow",
        400,
        bounds=(
            Bound("tokens_per_second", ">=", 3000, card_only=True),
            Bound("mfu", ">=", 0.4, card_only=True),
            Bound("share_of_publication", "<=", 0.02, card_only=True),
            Bound("peak_growth", "<=", 1.02, card_only=True),
        ),
        options={"size": "1.7B"},
    ),
    "preset": Step(
        "preset:run_preset",
        "An iteration of a preset for one GPU in full size, with random weights: time, memory beside the estimate",
        120,
        needs=("orjson", "tomlkit", "zstandard"),
        bounds=(Bound("exit_status", "<=", 0), Bound("peak_and_plan", "<=", 1.15, card_only=True)),
        options={"preset": "qwen3_plan_path_lora"},
    ),
    "marl_speed": Step(
        "marl:measure_marl",
        "MAPPO on simple_spread with its worlds on the device",
        90,
        bounds=(Bound("steps_per_second", ">=", 1e6, card_only=True),),
    ),
    "marl_seeds": Step(
        "seeds:measure_seeds",
        "MAPPO with 32 seeds at once",
        60,
        bounds=(Bound("time_to_one_seed", "<=", 2.0, card_only=True),),
    ),
    "trl": Step(
        "trl:compare_trl",
        "A step of TRL's GRPOTrainer with 0.5B parameters next to ours",
        180,
        needs=("trl", "datasets"),
    ),
    "vllm_weights": Step(
        "vllm_engine:check_weights",
        "vLLM in this process: new weights in place",
        240,
        needs=("vllm",),
        bounds=(Bound("mean_logprob_error", "<", 0.05),),
    ),
    "vllm_sleep": Step(
        "vllm_engine:check_sleep",
        "vLLM in this process: sleep and wake, with the memory released",
        240,
        needs=("vllm",),
        bounds=(
            Bound("answers_after_waking_differ", "<=", 0),
            Bound("mean_logprob_error", "<", 0.05),
            Bound("released_bytes", ">=", 1e9, card_only=True),
        ),
    ),
    "vllm_lora": Step(
        "vllm_engine:check_adapters",
        "vLLM in this process: an adapter is replaced while the engine runs",
        240,
        needs=("vllm",),
        bounds=(Bound("mean_logprob_error", "<", 0.05),),
    ),
    **{
        f"zero_{stage}": Step(
            "zero:measure_zero",
            f"DeepSpeed ZeRO {stage} in one process against the torch learner",
            180,
            needs=("deepspeed",),
            bounds=(Bound("largest_metric_error", "<", 0.05),),
            options={"stage": stage},
        )
        for stage in (2, 3)
    },
    "learning_base": Step(
        "learning:make_base",
        "Base models of 25 to 100 million parameters for plan_path, by imitation",
        200,
        bounds=(
            Bound("parameters", ">=", 25e6, card_only=True),
            Bound("parameters", "<=", 100e6, card_only=True),
        ),
    ),
    **{
        f"learning_{arm}_{seed}": Step(
            "learning:learn",
            f"plan_path, arm {arm}, seed {seed}",
            360,
            bounds=(Bound("greedy_gain", ">=", 0.0, card_only=True),),
            options={"arm": arm, "seed": seed},
        )
        for seed in (0, 1, 2)
        for arm in ("per_role", "shared", "episodes", "single")
    },
}


@dataclass(frozen=True)
class Call:
    """Steps for one call of a machine that is available for some minutes only."""

    seconds: float
    """Wall time of the whole call."""
    together: tuple[str, ...]
    """Steps that run side by side, before the others."""
    then: tuple[str, ...]
    """Steps that run one after the other."""


CALLS = {
    "first": Call(
        420.0,
        ("engine", "packing", "bf16", "fused_kernels", "lora", "publication", "algorithms", "marl"),
        ("update_1.7b", "generation_1.7b", "at_grpo_step"),
    ),
    "second": Call(
        300.0,
        (),
        (
            "preset", "trl", "shared_base", "marl_speed", "marl_seeds", "update_0.5b", "generation_0.5b", "update_8b", "generation_8b",
        ),
    ),
}  # fmt: skip
"""`--first-call` and `--second-call`."""
