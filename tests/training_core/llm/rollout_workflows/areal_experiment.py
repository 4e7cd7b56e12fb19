"""The experiment file of AReaL's guide (its older agents, step 3), word for word; only the imports are ours.

The registrations at the end of the agent's and environment's own files stand here too.
"""

# mypy: ignore-errors
# ruff: noqa
# fmt: off

import dataclasses
import os

from tests.training_core.llm.rollout_workflows import areal_guide
from training_core.llm.rollout_workflows.areal import (
    AgentAbstraction,
    AsyncRLExperimentConfig,
    EnvServiceAbstraction,
    PPOMATHConfig,
    register_agent,
    register_environment,
)


class MathMultiTurnAgent(areal_guide.MathMultiTurnAgent):
    def __init__(self, gconfig, tokenizer, my_param, num_turns=2):
        super().__init__(gconfig, tokenizer, num_turns)
        self.my_param = my_param

    async def collect_trajectory(self, prompt, env, obs_queue, act_queue):
        return [self.my_param * reward for reward in await super().collect_trajectory(prompt, env, obs_queue, act_queue)]


class MathCodeSingleStepEnv(areal_guide.MathCodeSingleStepEnv):
    def __init__(self, dataset_path):
        assert os.path.isfile(dataset_path), "the run's own data"


register_agent("math-multi-turn", MathMultiTurnAgent)
register_environment("math-code-single-step", MathCodeSingleStepEnv)


@dataclasses.dataclass
class AsyncPPOMATHConfig(AsyncRLExperimentConfig, PPOMATHConfig):
    # Add any new CLI arguments your agent needs
    my_param: float = 1.0

    @property
    def agent(self) -> AgentAbstraction:
        return AgentAbstraction(
            "math-multi-turn",  # Your registered agent name
            args=dict(
                # Pass any arguments needed for your __init__ method
                my_param=self.my_param,
                # ... other configuration ...
            ),
        )

    @property
    def env(self) -> EnvServiceAbstraction:
        # Update to use your custom environment if needed
        return EnvServiceAbstraction(
            "math-code-single-step",
            args=dict(dataset_path=self.dataset.path)
        )


class Misspelt(AsyncPPOMATHConfig):
    @property
    def agent(self) -> AgentAbstraction:
        return AgentAbstraction("math-multi-trun")
