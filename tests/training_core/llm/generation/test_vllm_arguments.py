"""What vLLM is given for a config, without vLLM."""

import torch

from tests.gpu.models import TINY, make_model
from training_core.llm.generation.engine_config import Vllm
from training_core.llm.generation.vllm_engine import llm_arguments
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.lora import add_adapter


def test_a_model_is_split_over_the_gpus_of_its_worker() -> None:
    model = make_model("qwen2", TINY, torch.device("cpu"))
    one, two = (llm_arguments(Vllm(tensor_parallel=size), model) for size in (1, 2))
    assert "tensor_parallel_size" not in one and "distributed_executor_backend" not in one
    assert two == one | {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}


def test_an_engine_that_sleeps_reserves_memory_for_it() -> None:
    model = make_model("qwen2", TINY, torch.device("cpu"))
    assert llm_arguments(Vllm(), model, sleeps=True) == llm_arguments(Vllm(), model) | {
        "enable_sleep_mode": True
    }


def test_an_adapter_gets_a_rank_that_vllm_supports() -> None:
    model = make_model("qwen2", TINY, torch.device("cpu"))
    add_adapter(model, Lora(rank=9), 0)
    arguments = llm_arguments(Vllm(), model)
    assert arguments["enable_lora"] is True and arguments["max_lora_rank"] == 16
