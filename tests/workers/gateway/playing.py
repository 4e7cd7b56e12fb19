"""A gateway in front of a real torch engine with a small random model, and an episode to play at it."""

import threading
from collections.abc import Sequence
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.training_core.llm.learning.chat_tokenizers import WITH_DEFAULT_SYSTEM, chat_tokenizer
from training_core.config.rollout import Agent
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec, write_episode
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.rendering import Renderer
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Answer, Episode, Prompt
from workers.gateway.gateway import Gateway

TOKENIZER = chat_tokenizer(WITH_DEFAULT_SYSTEM)
SETTINGS = SamplingSettings(temperature=0.9, max_tokens=12)


def make_engine(seed: int = 0, **options: Any) -> TorchEngine:
    """A small Llama with rather spread-out random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=TOKENIZER.eos_token_id,
        pad_token_id=TOKENIZER.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6.0)
    return TorchEngine(model.eval(), TOKENIZER, **options)


class Recorded:
    """An engine's generate function that records prompts and answers."""

    def __init__(self, engine: TorchEngine) -> None:
        self.engine = engine
        self.calls: list[tuple[list[Prompt], SamplingSettings, list[list[Answer]]]] = []

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        answers = self.engine.generate(prompts, settings)
        self.calls.append((list(prompts), settings, answers))
        return answers


class Scripted:
    """A policy that says given texts, one call after the other; `ends` False cuts them before their end of turn."""

    def __init__(self, *texts: str, ends: bool = True) -> None:
        self.texts = list(texts)
        self.ends = ends
        self.prompts: list[Prompt] = []
        self._lock = threading.Lock()

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        with self._lock:
            self.prompts += prompts
            return [[self._answer() for _ in range(prompt.count)] for prompt in prompts]

    def _answer(self) -> Answer:
        text = self.texts.pop(0)
        ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
        ids += [TOKENIZER.eos_token_id] if self.ends else []
        return Answer(ids, [-0.5] * len(ids), [3] * len(ids), "stop" if self.ends else "length", text)


def make_session(generate: Any, roles: Sequence[str] = ("solver",), **settings: Any) -> Session:
    """An open episode whose roles all speak by `generate`."""
    voice = PolicyClient(
        "policy", generate, SamplingSettings(**settings) if settings else SETTINGS, Renderer(TOKENIZER)
    )
    episode = Episode("e", 1, "train", "task", "a task", siblings="s")
    return Session(SessionSpec(episode, {"number": 7}, dict.fromkeys(roles, voice), (0, 3, 1, 5)))


def make_gateway(**section: Any) -> Gateway:
    """A gateway that listens."""
    gateway = Gateway(Agent(**section), {"policy": TOKENIZER}, threads=1)
    gateway.start()
    return gateway


def ids_of(text: str) -> list[int]:
    """The token ids of an answer with its end of turn."""
    return [*TOKENIZER(text, add_special_tokens=False)["input_ids"], TOKENIZER.eos_token_id]


def assert_one_sequence(said: Recorded, session: Session) -> None:
    """Every prompt begins with the one before and its answer, as sampled, and the episode is trained as one sequence."""
    prompts = [call[0][0].token_ids for call in said.calls]
    answers = [call[2][0][0].token_ids for call in said.calls]
    for before, answer, prompt in zip(prompts, answers, prompts[1:], strict=False):
        assert prompt[: len(before) + len(answer)] == before + answer
    session.reward({"reward": 1.0})
    session.close()
    (turn,) = write_episode(session, 1.0).turns
    assert turn.candidates[0].answer.learnt(turn.candidates[0].answer.token_ids) == sum(answers, [])
