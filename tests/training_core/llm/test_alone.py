"""The learner and the torch engine need torch and transformers, and nothing else that is heavy."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
BLOCKED = ("ray", "deepspeed", "vllm", "peft", "httpx", "openai", "django", "datasets", "trl")
sys.modules.update(dict.fromkeys(BLOCKED))  # as if they were not installed
from tests.training_core.llm.toys import TOKENIZER, make_group, make_model
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.llm.generation.base import SamplingSettings, make_engine
from training_core.llm.learning.learner import make_learner
from training_core.types import Group, NoiseKey, Prompt

policy, model = Policy(), make_model()
engine = make_engine(policy.engine, model, TOKENIZER)
learner = make_learner(policy, AtGrpo(), model, 1)
answers = engine.generate([Prompt([6, 7], 4, NoiseKey(0, 0, 1, 0, 0, 0))], SamplingSettings(max_tokens=3))[0]
advantages = [1.0, -1.0, 1.0, -1.0]
before = {name: weight.clone() for name, weight in learner.weights().items()}
result = learner.update([Group("e", 0, [6, 7], answers, advantages, advantages, 1.0, 0, 1.0)], 1, 0)
assert any(not weight.equal(before[name]) for name, weight in learner.weights().items())
print("learnt from", int(result.metrics["trained_groups"]), sorted(n for n in BLOCKED if sys.modules.get(n)))
"""


@pytest.mark.extended
def test_the_learner_and_the_torch_engine_run_with_plain_torch_and_transformers() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("learnt from 1 []")
