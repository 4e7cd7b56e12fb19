"""A complete run as a real Ray job, with a custom package that is sent along."""

import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from tests.training_core.llm.toys import SMALL, TOKENIZER
from tests.workers.running import curve
from training_core.config.files import parse_config, to_toml
from workers.launchers.launcher import JobState, Launch, driver_command
from workers.launchers.ray_jobs import RayJobLauncher, code_package

from .conftest import RayHead, until

ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)
SECONDS = 500.0
"""That a job may take on a busy machine: it starts several Python processes with torch."""
LAB = {
    "__init__.py": "",
    "worlds.py": '''
import copy
from lab.rewards import right
from training_core.llm.environments.base import StepResult

class Words:
    """Prompts for a word, which a file in its folder contains."""
    def __init__(self, seed, word):
        self.word, self.title, self.task_id, self.outcome = word, "say it", "", "under way"
        self.done = self.success = False
    def reset(self, task, split):
        self.task_id, self.done, self.success = f"{split}-{task}", False, False
    def observe(self, role):
        return "w7"
    def act(self, role, answer):
        self.done, self.success = True, bool(right("", answer, [], [], label=self.word))
        return StepResult(0.0, float(self.success), True, self.success, "said")
    def copy(self):
        return copy.copy(self)
    def board(self):
        return {"kind": "lines", "lines": []}
''',
    "rewards.py": '''
import lab
from pathlib import Path

def right(prompt, completions, prompt_ids, completion_ids, **data):
    """The shipped folder, data file included, is all there is of this package."""
    assert "_ray_pkg_" in lab.__file__, lab.__file__
    allowed = (Path(lab.__file__).parent / "words.txt").read_text().split()
    return float(completions.split()[:1] == [data.get("label", allowed[0])])
''',
    "words.txt": "w3",
    "flows.py": '''
import torch
from training_core.llm.rollout_workflows.api import ModelRequest, RolloutWorkflow
from training_core.llm.rollout_workflows.areal import AsyncRewardWrapper

class Once(RolloutWorkflow):
    """One answer to the world's question."""
    def __init__(self, reward_fn, gconfig, tokenizer):
        self.reward, self.gconfig, self.tokenizer = AsyncRewardWrapper(reward_fn), gconfig, tokenizer
    async def arun_episode(self, engine, data):
        asked = self.tokenizer.apply_chat_template(data["messages"], add_generation_prompt=True, tokenize=True)
        said = await engine.agenerate(ModelRequest(list(asked["input_ids"]), self.gconfig.new(n_samples=1), "r"))
        text = self.tokenizer.decode(said.output_tokens, skip_special_tokens=True)
        paid = await self.reward(prompt="", completions=text, prompt_ids=[], completion_ids=[])
        before = [0] * said.input_len
        row = {
            "input_ids": said.input_tokens + said.output_tokens,
            "logprobs": before + said.output_logprobs,
            "loss_mask": before + [1] * said.output_len,
            "versions": [-1] * said.input_len + said.output_versions,
            "attention_mask": before + [1] * said.output_len,
        }
        tensors = {name: torch.tensor(values).unsqueeze(0) for name, values in row.items()}
        tensors["attention_mask"] = torch.ones_like(tensors["input_ids"])
        return tensors | {"rewards": torch.tensor([paid])}
''',
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained."""
    import torch

    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the server has it; jobs run this Python, whatever PATH says."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    monkeypatch.setenv("TROUPE_HOME", str(home))
    monkeypatch.setattr(
        "workers.launchers.ray_jobs.driver_command", lambda launch, _: driver_command(launch, sys.executable)
    )
    return home


def tree(model: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": {"iterations": 2},
        "team": {"roles": {"agent": {"policy": "agent", "sampling": {"max_tokens": 2}}}},
        "policies": {"agent": {"model": str(model)}},
        "algorithm": {"type": "at_grpo"},
        "rollout": {"tasks": 2, "group_size": 4},
        "resources": {"environment_workers": 1},
        "evaluation": {"every": 0},
        "checkpoint": {"every": 0},
    } | sections


def launched(told: dict[str, Any], home: Path, name: str) -> Launch:
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(parse_config(told)))
    return Launch(name, 1, folder, home)


@pytest.mark.ray
@pytest.mark.extended
def test_a_custom_package_is_sent_with_the_job(
    ray_head: RayHead, home: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment, workflow and reward by import path, from a folder that only this process has on its path."""
    code = tmp_path / "code" / "lab"
    code.mkdir(parents=True)
    for name, text in LAB.items():
        (code / name).write_text(text)
    monkeypatch.syspath_prepend(str(code.parent))
    monkeypatch.setenv("TROUPE_IMPORT_PACKAGES", "lab")
    code_package.cache_clear()
    told = tree(
        model,
        environment={"type": "custom", "path": "lab.worlds:Words", "args": {"word": "w3"}, "max_turns": 1},
        workflow={
            "type": "rollout_workflow",
            "path": "lab.flows:Once",
            "reward": {"type": "custom", "path": "lab.rewards:right"},
        },
        evaluation={"every": 2, "episodes": 2, "probes": 1},
    )
    launcher = RayJobLauncher(ray_head.address, ray_head.token, remote=True, timeout=120.0)
    launch = launched(told, home, "own-package")
    job = launcher.submit(launch)
    until(lambda: launcher.status(job).state in ENDED, SECONDS)
    assert launcher.status(job).state is JobState.SUCCEEDED, launcher.logs(job)
    values = curve(launch.folder)
    assert values["rollout/failed", 2] == 0 and 0.0 <= values["train/return", 2] <= 1.0
    assert values["eval/failed", 2] == 0
    code_package.cache_clear()
    launcher.close()
