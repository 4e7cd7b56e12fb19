"""The two lines of an evaluation of small networks."""

from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from workers.driver.marl_lines import summary_lines

RETURNS = {
    "eval/return": 125.0,
    "eval/return_std": 0.0,
    "eval_sampled/return": 124.5,
    "eval_sampled/length": 25.0,
}


def test_an_update_line_is_printed_after_the_first_update() -> None:
    config = load_config("spread_toy")
    assert isinstance(config, MarlConfig)
    resumed = list(summary_lines(config, 50, RETURNS))
    assert len(resumed) == 1 and "greedy return=125.00" in resumed[0]
    update = {"actor_loss": -0.25, "value_loss": 0.5, "kl": 0.01}
    learnt = {f"policy/agents/{name}": value for name, value in update.items()}
    first, second = summary_lines(config, 51, RETURNS | learnt)
    assert first.startswith("[toy_simple_spread | mappo | Iter 51]")
    assert "KL=0.0100" in second and second.endswith("Vloss=0.500 Aloss=-0.250")
