"""The vllm engine: vLLM in this process, with new weights written into its model in place.

Imported only on use: vLLM is the extra `gpu`. Noise is vLLM's, a seed per candidate, so tokens differ from those of
the torch engine; logprobs are those of the sampling distribution.
"""

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import EngineFailure, import_cause
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.engine_config import Vllm
from training_core.llm.generation.grammars import grammar_spans
from training_core.llm.generation.prompt_checks import check_prompts, context_length
from training_core.llm.generation.stop_words import StopWords, end_tokens
from training_core.llm.models.lora import has_adapter, load_trained_weights, save_adapter, trained_weights
from training_core.seeding import keyed_seed
from training_core.types import Answer, Prompt, StopReason

_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Adapter ranks that vLLM supports."""


def check_vllm(settings: Vllm) -> str:
    """State the version of vLLM. Raises EngineFailure if it cannot be imported."""
    return f"vLLM {_import_vllm().__version__} is installed"


def _import_vllm() -> Any:
    """The package. Raises EngineFailure if it is not installed."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights are written from this process
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        import vllm
    except ImportError as error:
        raise EngineFailure(
            f'engine.type = "vllm" needs vLLM: {import_cause(error)}',
            remedy='pip install "troupe[gpu]", or set policies.*.engine.type = "torch"',
        ) from error
    return vllm


def llm_arguments(settings: Vllm, model: PreTrainedModel, *, sleeps: bool = False) -> dict[str, Any]:
    """The arguments of vllm.LLM. Raises EngineFailure for an adapter of a rank that vLLM does not support."""
    ranks = [part.shape[0] for name, part in trained_weights(model).items() if ".lora_A." in name]
    adapters = {"enable_lora": True, "max_lora_rank": min(_supported_ranks(max(ranks)))} if ranks else {}
    split = {
        "tensor_parallel_size": settings.tensor_parallel,
        "distributed_executor_backend": "mp",  # Ray's would request more devices than the worker has
    }
    return {
        "model": model.name_or_path,
        "dtype": str(model.dtype).removeprefix("torch."),
        "max_num_seqs": settings.sequences,
        "max_model_len": settings.context or None,
        "gpu_memory_utilization": settings.gpu_memory,
        "enforce_eager": settings.eager,
        "logprobs_mode": "processed_logprobs",
        "structured_outputs_config": {"backend": "guidance"},
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        **(split if settings.tensor_parallel > 1 else {}),
        **({"enable_sleep_mode": True} if sleeps else {}),
        **adapters,
    }


class VllmEngine:
    """A SleepingEngine in vLLM. `model` provides its initial weights and saves adapters."""

    def __init__(
        self,
        settings: Vllm,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        version: int = 0,
        *,
        sleeps: bool = False,
    ) -> None:
        """`sleeps`: reserve memory so that `sleep` can release it. On a CPU, where vLLM cannot, `sleep` has no effect."""
        vllm = _import_vllm()
        self._vllm = vllm
        self.model = model
        self.tokenizer = tokenizer
        self.version = version
        self._ends = end_tokens(tokenizer, model)
        self._context = settings.context or context_length(model)
        self._numbers = itertools.count()
        self._adapter: Any = None
        """vLLM's name of this version's adapter; None if there is none yet."""
        self._folders = tempfile.TemporaryDirectory(prefix="troupe-adapters-")
        self._processes = settings.tensor_parallel
        self._sleeps = sleeps and model.device.type == "cuda"
        self._llm: Any = vllm.LLM(**llm_arguments(settings, model, sleeps=self._sleeps))

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """Sample with vLLM in this process. An interrupt returns answers as far as they were generated."""
        limits = check_prompts(self.model, prompts, settings, self._context)
        engine = self._llm.llm_engine
        request_ids = [
            self._submit(prompt, index, replace(settings, max_tokens=limit))
            for prompt, limit in zip(prompts, limits, strict=True)
            for index in range(prompt.count)
        ]
        outputs: dict[str, Any] = {}
        while engine.has_unfinished_requests():
            if interrupted and interrupted():
                engine.abort_request(
                    [name for name in request_ids if not (name in outputs and outputs[name].finish_reason)]
                )
                break
            for output in engine.step():
                outputs[output.request_id] = output.outputs[0]
        words = StopWords(self.tokenizer, settings.stop, self._ends)
        names = iter(request_ids)
        return [
            [self._answer(outputs.get(next(names)), prompt, words) for _ in range(prompt.count)]
            for prompt in prompts
        ]

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Write weights into vLLM's model, or give it an adapter under a new name. Raises EngineFailure."""
        if different := sorted(trained_weights(self.model).keys() ^ state.keys()):
            raise EngineFailure(
                f"weights of version {version} do not fit the model: {different[0]} exists on one side only"
            )
        if has_adapter(self.model):
            self._load_adapter(state, version)
        elif (
            self._processes > 1
        ):  # the weights are pickled for vLLM's processes, each of which loads its part
            weights = [(name, tensor.cpu()) for name, tensor in state.items()]
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        else:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(state.items())})
        self._llm.reset_prefix_cache()
        self.version = version

    def sleep(self) -> None:
        """Move vLLM's weights to the host and discard its KV cache."""
        if self._sleeps:
            self._llm.sleep(level=1)

    def wake_up(self) -> None:
        """Move vLLM's weights back and allocate its KV cache."""
        if self._sleeps:
            torch.cuda.empty_cache()  # memory that an update has freed stays with torch, where vLLM cannot allocate it
            self._llm.wake_up()

    def _load_adapter(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        from vllm.lora.request import LoRARequest

        load_trained_weights(self.model, state)
        folder = Path(self._folders.name) / f"version-{version}"
        folder.mkdir(exist_ok=True)
        save_adapter(folder, self.model, trained_weights(self.model), str(self.model.name_or_path))
        if self._adapter:
            self._llm.llm_engine.remove_lora(self._adapter.lora_int_id)
        self._adapter = LoRARequest(folder.name, version + 1, str(folder))

    def _submit(self, prompt: Prompt, index: int, settings: SamplingSettings) -> str:
        """Submit one candidate to vLLM; return its request id."""
        first = prompt.first + index
        params = self._vllm.SamplingParams(
            temperature=0.0 if settings.greedy else settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens - prompt.offset,
            stop=list(settings.stop),
            skip_special_tokens=False,  # stop strings may contain them
            seed=keyed_seed(*prompt.key, first, prompt.offset) % 2**31,
            logprobs=0,
            structured_outputs=self._grammar(prompt.grammar),
        )
        name = f"candidate-{next(self._numbers)}"
        self._llm.llm_engine.add_request(
            name, {"prompt_token_ids": prompt.token_ids}, params, lora_request=self._adapter
        )
        return name

    def _grammar(self, grammar: str) -> Any:
        """vLLM's form of a grammar, which it gives to llguidance; None without one."""
        if not grammar:
            return None
        from vllm.sampling_params import StructuredOutputsParams

        return StructuredOutputsParams(grammar=grammar)

    def _answer(self, output: Any, prompt: Prompt, words: StopWords) -> Answer:
        cut = prompt.grammar and output is not None and output.finish_reason not in ("stop", "length")
        if (
            output is None or cut
        ):  # sampled again from the beginning: vLLM follows a grammar from the end of the prompt
            return Answer([], [], [], "interrupt", "")
        tokens = list(output.token_ids)
        logprobs = [float(seen[token].logprob) for token, seen in zip(tokens, output.logprobs, strict=True)]
        whole = [*prompt.token_ids[len(prompt.token_ids) - prompt.offset :], *tokens]
        reason: StopReason = (
            output.finish_reason if output.finish_reason in ("stop", "length") else "interrupt"
        )
        (text,) = words.answer_texts([whole])
        grammars = grammar_spans(prompt.grammar, len(tokens))
        return Answer(tokens, logprobs, [self.version] * len(tokens), reason, text, grammars=grammars)


def _supported_ranks(rank: int) -> list[int]:
    supported = [limit for limit in _RANKS if limit >= rank]
    if not supported:
        raise EngineFailure(f"vLLM supports adapters up to rank {_RANKS[-1]}, not {rank}")
    return supported
