"""AT-GRPO (arXiv 2510.11062) on `plan_path_duo` in one file: two language models learn to lead each other through a maze.

    python -m examples.at_grpo [ITERATIONS]

Plain torch and transformers, to be read from top to bottom: sample K answers from one state, try each on a copy, compare them
within their group, continue from one of them; then clipped policy-gradient steps on every policy's own groups. Prefixes are not
shared, rows are padded, nothing runs in parallel. Troupe's own code does the same with the same numbers: sampling noise has
a key (seed, iteration, task, turn, role, candidate, position), so both draw the same tokens. See docs/start/concepts.md.

From Troupe come only the task (environment), the base models and the keyed noise.
"""

import copy
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training_core.config.files import load_config
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.environments.base import TextEnvironment
from training_core.llm.environments.registry import make_environment
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.seeding import keyed_uniform

ROLES = ("planner", "executor")
TASKS, K = 48, 8  # tasks of an iteration, candidates of a group
MAX_TURNS, MAX_TOKENS = 5, 8
LEARNING_RATE, FINAL_LEARNING_RATE, BETAS = 1e-3, 1e-4, (0.9, 0.99)
MINIBATCHES, MAX_GRAD_NORM = 4, 1.0
CLIP, DUAL_CLIP, KL_COEFFICIENT = 0.2, 3.0, 0.03
TURN_TREE, CARRY = (
    0,
    1_000_003,
)  # words of noise keys: training play, the choice of the candidate that is continued


@dataclass
class Group:
    """K answers to one prompt: one task, one role, one turn."""

    prompt: list[int]
    answers: list[list[int]]
    """(K, tokens)"""
    logprobs: list[list[float]]
    """(K, tokens) under the distribution that the tokens were drawn from."""
    rewards: list[float]
    """(K,)"""

    def advantages(self) -> list[float]:
        """(K,) A = (R - mean) / (std + 1e-6), with the unbiased standard deviation."""
        mean, std = np.mean(self.rewards), np.std(self.rewards, ddof=1)
        return [float((reward - mean) / (std + 1e-6)) for reward in self.rewards]

    @property
    def informative(self) -> bool:
        """Whether its rewards differ; otherwise it has no gradient and is left out."""
        low, high = min(self.rewards), max(self.rewards)
        return high - low > 1e-9 * max(abs(low), abs(high))


@dataclass
class Episode:
    """One task."""

    task: int
    environment: TextEnvironment
    total: float = 0.0
    """Sum of the executed answers' rewards."""
    success: bool = False
    done: bool = False


@dataclass
class Policy:
    """The model of one role, its base model and its optimiser."""

    model: Any
    tokenizer: Any
    reference: Any = field(init=False)
    adamw: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.reference = copy.deepcopy(self.model).requires_grad_(False)
        self.adamw = torch.optim.AdamW(
            self.model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=0.0
        )


def train(
    iterations: int, schedule: int, home: Path, seed: int = 0
) -> tuple[list[dict[str, float]], dict[str, Policy]]:
    """Metrics of each iteration, and the policies. The learning rate falls over `schedule` iterations, all of a whole run."""
    config = load_config("plan_path_duo")
    source = resolve_model("tiny", config.environment, home)
    policies = {role: Policy(load_model(source), load_tokenizer(source)) for role in ROLES}
    rows = []
    for iteration in range(1, iterations + 1):
        episodes = [
            Episode(task, make_environment(config.environment, seed))
            for task in range((iteration - 1) * TASKS, iteration * TASKS)
        ]
        groups = play(episodes, policies, iteration, seed)
        row = {
            "train/return": float(np.mean([episode.total for episode in episodes])),
            "train/success": float(np.mean([episode.success for episode in episodes])),
        }
        rate = learning_rate(iteration, schedule)
        for role in ROLES:
            metrics = update(policies[role], groups[role], iteration, rate)
            row |= {f"policy/{role}/{name}": value for name, value in metrics.items()}
        rows.append(row)
        print(f"iteration {iteration}: " + ", ".join(f"{name} {value:.4f}" for name, value in row.items()))
    return rows, policies


# Rollout: the turn tree.


def play(
    episodes: Sequence[Episode], policies: dict[str, Policy], iteration: int, seed: int
) -> dict[str, list[Group]]:
    """Play the tasks to their ends; the groups of each role, episode by episode."""
    by_episode: dict[str, list[list[Group]]] = {role: [[] for _ in episodes] for role in ROLES}
    for episode in episodes:
        episode.environment.reset(episode.task, "train")
    for turn in range(MAX_TURNS):
        for index, role in enumerate(ROLES):
            live = [number for number, episode in enumerate(episodes) if not episode.done]
            keys = [(seed, TURN_TREE, iteration, episodes[number].task, turn, index) for number in live]
            prompts = [
                render(policies[role].tokenizer, str(episodes[number].environment.observe(role)))
                for number in live
            ]
            answers, logprobs = sample(policies[role], prompts, keys)
            for row, number in enumerate(live):
                group = Group(prompts[row], answers[row], logprobs[row], [])
                act(episodes[number], role, group, policies[role].tokenizer, keys[row])
                by_episode[role][number].append(group)
    return {role: [group for groups in by_episode[role] for group in groups] for role in ROLES}


def act(episode: Episode, role: str, group: Group, tokenizer: Any, key: tuple[int, ...]) -> None:
    """Try every candidate on a copy of the state, fill the group's rewards, and continue from a random copy."""
    copies, results = [], []
    for tokens in group.answers:
        state = episode.environment.copy()
        results.append(state.act(role, text_of(tokenizer, tokens)))
        copies.append(state)
    group.rewards[:] = [result.team_reward + result.local_reward for result in results]
    chosen = int(keyed_uniform(*key, CARRY) * K)
    episode.environment = copies[chosen]
    episode.total += group.rewards[chosen]
    episode.done, episode.success = results[chosen].done, results[chosen].success


def text_of(tokenizer: Any, tokens: Sequence[int]) -> str:
    """An answer as text, without padding and end-of-text tokens at its end. Other special tokens are part of it."""
    end = len(tokens)
    while end and tokens[end - 1] in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        end -= 1
    return str(tokenizer.decode(tokens[:end], skip_special_tokens=False))


def render(tokenizer: Any, observation: str) -> list[int]:
    """Token ids of the chat that a role sees."""
    messages = [{"role": "user", "content": observation}]
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)["input_ids"]
    )


@torch.no_grad()
def sample(
    policy: Policy, prompts: Sequence[list[int]], keys: Sequence[tuple[int, ...]]
) -> tuple[list[list[list[int]]], list[list[list[float]]]]:
    """K answers to each prompt at temperature 1, with their logprobs. Draws by inverse CDF with keyed uniform numbers."""
    rows = [
        (prompt, key, candidate) for prompt, key in zip(prompts, keys, strict=True) for candidate in range(K)
    ]
    answers: list[list[int]] = [[] for _ in rows]
    logprobs: list[list[float]] = [[] for _ in rows]
    live = list(range(len(rows)))
    for position in range(MAX_TOKENS):
        if not live:
            break
        texts = [rows[row][0] + answers[row] for row in live]
        last = [len(text) - 1 for text in texts]
        log_probs = logits_of(policy.model, texts)[range(len(live)), last].float().log_softmax(dim=-1)
        cumulative = log_probs.double().exp().cumsum(dim=-1)
        noise = [keyed_uniform(*rows[row][1], rows[row][2], position) for row in live]
        target = torch.tensor(noise, dtype=torch.float64).unsqueeze(-1) * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True).squeeze(-1).tolist()
        for index, (row, token) in enumerate(zip(live, tokens, strict=True)):
            answers[row].append(token)
            logprobs[row].append(float(log_probs[index, token]))
        live = [row for row in live if answers[row][-1] != policy.tokenizer.eos_token_id]
    return (
        [answers[first : first + K] for first in range(0, len(rows), K)],
        [logprobs[first : first + K] for first in range(0, len(rows), K)],
    )


def logits_of(model: Any, texts: Sequence[Sequence[int]]) -> Tensor:
    """Logits (rows, longest, vocabulary) of texts, padded on the right."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    logits: Tensor = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return logits


# Update: clipped policy gradient with a KL penalty.


def update(policy: Policy, groups: Sequence[Group], iteration: int, rate: float) -> dict[str, float]:
    """One optimiser step per minibatch of informative groups; metrics averaged over tokens (loss, norm: over steps)."""
    groups = [group for group in groups if group.informative]
    sums = dict.fromkeys(("loss", "kl", "entropy", "grad_norm", "tokens"), 0.0)
    for section in policy.adamw.param_groups:
        section["lr"] = rate
    order = sorted(range(len(groups)), key=lambda index: keyed_uniform(iteration, index))
    parts = [order[part::MINIBATCHES] for part in range(min(MINIBATCHES, len(groups)))]
    for number in sorted(range(len(parts)), key=lambda part: keyed_uniform(iteration, 0, part)):
        loss = minibatch_loss(policy, [groups[index] for index in parts[number]], sums)
        loss.backward()
        sums["grad_norm"] += float(torch.nn.utils.clip_grad_norm_(policy.model.parameters(), MAX_GRAD_NORM))
        policy.adamw.step()
        policy.adamw.zero_grad()
        sums["loss"] += loss.item()
    tokens, steps = max(sums["tokens"], 1.0), max(len(parts), 1)
    return {
        "loss": sums["loss"] / steps,
        "kl": sums["kl"] / tokens,
        "entropy": sums["entropy"] / tokens,
        "grad_norm": sums["grad_norm"] / steps,
    }


def minibatch_loss(policy: Policy, groups: Sequence[Group], sums: dict[str, float]) -> Tensor:
    """The mean over tokens of max(-r A, -clip(r) A), at most -c A where A < 0, plus the KL penalty (k3) to the base model."""
    rows = [
        (group.prompt, answer, sampled, advantage)
        for group in groups
        for answer, sampled, advantage in zip(group.answers, group.logprobs, group.advantages(), strict=True)
    ]
    texts = [prompt + answer for prompt, answer, _, _ in rows]
    places = [
        (row, len(prompt) - 1 + position)
        for row, (prompt, answer, _, _) in enumerate(rows)
        for position in range(len(answer))
    ]
    at = tuple(torch.tensor(column) for column in zip(*places, strict=True))
    targets = torch.tensor([token for _, answer, _, _ in rows for token in answer]).unsqueeze(-1)
    old = torch.tensor([logprob for _, _, sampled, _ in rows for logprob in sampled])
    advantages = torch.tensor([advantage for _, answer, _, advantage in rows for _ in answer])
    log_probs = logits_of(policy.model, texts)[at].float().log_softmax(dim=-1)
    logprobs = log_probs.gather(-1, targets).squeeze(-1)
    with torch.no_grad():
        base = (
            logits_of(policy.reference, texts)[at].float().log_softmax(dim=-1).gather(-1, targets).squeeze(-1)
        )
    ratios = (logprobs - old).exp()
    losses = torch.maximum(-ratios * advantages, -ratios.clamp(1 - CLIP, 1 + CLIP) * advantages)
    losses = torch.where(advantages < 0, losses.minimum(-DUAL_CLIP * advantages), losses)
    difference = logprobs - base
    kl = (-difference).exp() - 1 + difference
    sums["kl"] += float(kl.detach().sum())
    sums["entropy"] -= float((log_probs.exp() * log_probs).detach().sum())
    sums["tokens"] += len(losses)
    return (losses + KL_COEFFICIENT * kl).mean()


def learning_rate(iteration: int, iterations: int) -> float:
    """Cosine from LEARNING_RATE to FINAL_LEARNING_RATE."""
    done = min((iteration - 1) / max(iterations - 1, 1), 1.0)
    left = 0.5 * (1.0 + math.cos(math.pi * done))
    return FINAL_LEARNING_RATE + (LEARNING_RATE - FINAL_LEARNING_RATE) * left


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    train(count, count, Path("var"))
