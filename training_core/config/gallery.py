"""Descriptions of the presets in the gallery."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """Purpose of a preset in one line, with expected time and result."""

    task: str
    """The task; presets of one task are listed together."""
    purpose: str
    time: str
    """Duration, and on which machine."""
    result: str
    """Final values of metrics."""


GALLERY: dict[str, Expected] = {
    "plan_path_duo": Expected(
        task="Plan-Path",
        purpose="Two agents learn to cooperate: one sees the goal, the other the walls.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.2 to 0.98 or more (greedy, 256 held-out tasks)",
    ),
    "plan_path_ppo": Expected(
        task="Plan-Path",
        purpose="plan_path_duo by PPO: a critic instead of comparisons within a group.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.18 to 0.98 by iteration 60 (greedy, 256 held-out tasks, one seed)",
    ),
    "plan_path_self_play": Expected(
        task="Plan-Path",
        purpose="One policy for both roles of plan_path_duo, with a baseline per role (RAE).",
        time="about 1 minute on two CPU cores",
        result="success from 0.18 to 0.97 by iteration 60 (greedy, 256 held-out tasks, one seed)",
    ),
    "plan_path_single": Expected(
        task="Plan-Path",
        purpose="A single agent sees goal and walls: the control for plan_path_duo.",
        time="about 1 minute on two CPU cores",
        result="success from 0.4 to 0.96 by iteration 10 (greedy, 256 held-out tasks)",
    ),
    "plan_path_trio": Expected(
        task="Plan-Path",
        purpose="Three agents, one policy each: planner and scout speak at the same time, the executor follows both.",
        time="2 to 3 minutes on two CPU cores",
        result="success from 0.15 to 0.93 by iteration 40 (greedy, 256 held-out tasks)",
    ),
    "plan_path_pretrained": Expected(
        task="Plan-Path",
        purpose="plan_path_duo in plain English: SmolLM2-135M-Instruct for both roles, an adapter for each.",
        time="about 15 minutes on one CPU core, 4 GB of memory",
        result="success from 0.15 to 0.91 by iteration 20 (greedy, 128 held-out tasks, two seeds)",
    ),
    "plan_path": Expected(
        task="Plan-Path",
        purpose="Plan-Path on 6×6 with more walls than plan_path_duo; one override sets the original 10×10.",
        time="a few minutes on two CPU cores",
        result="success from 0.17 to 0.82 (greedy, 128 held-out tasks, one seed)",
    ),
    "sudoku": Expected(
        task="Puzzles",
        purpose="One agent finds the square with only one possible digit, the other determines the digit.",
        time="2 to 3 minutes on two CPU cores",
        result="success from 0.2 to about 0.9 (greedy, 256 held-out tasks, one seed)",
    ),
    "sokoban": Expected(
        task="Puzzles",
        purpose="One agent sees the goals, the other walks around the box and pushes it.",
        time="a few minutes on two CPU cores",
        result="success from 0.36 to 0.63 (greedy, 128 held-out tasks, one seed)",
    ),
    "eight_queens": Expected(
        task="Puzzles",
        purpose="One agent picks the queen to move, the other, which sees one row, picks its square.",
        time="a few minutes on two CPU cores",
        result="success from 0.09 to 0.79 (sampled, 128 held-out tasks, one seed)",
    ),
    "blocksworld": Expected(
        task="Puzzles",
        purpose="One agent sees the goal piles, the other sees the current piles and moves blocks.",
        time="a few minutes on two CPU cores",
        result="success from 0.20 to 0.65 (greedy, 128 plays of the held-out tasks, one seed)",
    ),
    "arithmetic": Expected(
        task="Sums and programs",
        purpose="Two agents solve sums: one writes them for a calculator, the other reads the result and answers "
        "in a box.",
        time="1 minute on two CPU cores",
        result="success from 0.26 (sampled) and 0.56 (greedy) to 0.9 or more on 256 held-out tasks",
    ),
    "arithmetic_pretrained": Expected(
        task="Sums and programs",
        purpose="A solver and a checker solve sums in plain English: SmolLM2-135M-Instruct for both roles, with "
        "one adapter each.",
        time="about 10 minutes on one CPU core, 2 GB of memory",
        result="success from 0.11 to 0.76 on held-out sums (greedy, 128 tasks, two seeds)",
    ),
    "multi_turn_math": Expected(
        task="Sums and programs",
        purpose="A reasoner solves sums without a calculator; after a wrong answer it tries again, for a tenth "
        "less reward each time.",
        time="a few minutes on two CPU cores",
        result="reward of sampled play from 0.2 to 0.45 by iteration 11, on held-out sums from 0.21 to 0.33 (three seeds)",
    ),
    "coding": Expected(
        task="Sums and programs",
        purpose="A tester and a coder write a program, which is executed against hidden tests.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.1 to 1.0 by iteration 20 (greedy, 64 held-out tasks, one seed)",
    ),
    "spread_toy": Expected(
        task="Toys",
        purpose="Five small networks name five slots: the smallest task, solved within seconds.",
        time="a few seconds on one CPU core",
        result="eval/return at 125, the maximum, within 32 iterations (6,400 steps)",
    ),
    "foraging_mappo": Expected(
        task="Toys",
        purpose="Three agents share the work of gathering food on a grid.",
        time="half a minute on one CPU core",
        result="eval/return at 5.9 of at most 6 within 25 iterations",
    ),
    "hetero_mappo": Expected(
        task="Toys",
        purpose="Scouts see a hint and signal it; workers see only the signals.",
        time="half a minute on one CPU core",
        result="eval/return at 48 of at most 50 (the first step is a guess) within 150 iterations",
    ),
    "spread_mappo": Expected(
        task="Particles (MPE)",
        purpose="MAPPO on MPE simple_spread: three agents cover three landmarks, the critic sees all agents.",
        time="4 to 5 minutes on one CPU core",
        result="eval/return from -80 past -45 within half a minute and past -30 within one, to about -24 (sum over agents, 25 steps)",
    ),
    "spread_ippo": Expected(
        task="Particles (MPE)",
        purpose="IPPO on MPE simple_spread: the critic sees its agent's observation; the control for spread_mappo.",
        time="about 5 minutes on one CPU core",
        result="eval/return from -80 past -45 within half a minute and past -30 within two, to about -26 (sum over agents, 25 steps)",
    ),
    "tag_mappo": Expected(
        task="Particles (MPE)",
        purpose="MPE simple_tag: three adversaries chase a faster agent; two policies that learn against each other.",
        time="about 2 minutes on one CPU core",
        result="final returns (sampled, sums): 80 for adversaries and -36 for the good agent; before training 14 "
        "and -17",
    ),
    "reference_mappo": Expected(
        task="Particles (MPE)",
        purpose="MPE simple_reference: two agents tell each other where to go, in letters whose meaning they learn.",
        time="about 4 minutes on one CPU core",
        result="eval/return from -56 to -35 (moving to the centre, without communication), to -16 by 2.6 million "
        "steps (with communication). Scripted communication: -17",
    ),
    "recall_mappo_gru": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with a GRU, by MAPPO; without memory no policy beats "
        "guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_mappo_lstm": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with an LSTM, by MAPPO; without memory no policy beats "
        "guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_mappo_transformer": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with a transformer, by MAPPO; without memory no policy "
        "beats guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_gru": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with a GRU, by IPPO; without memory no policy beats "
        "guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_lstm": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with an LSTM, by IPPO; without memory no policy beats "
        "guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_transformer": Expected(
        task="Memory",
        purpose="Two agents remember a cue over eight steps with a transformer, by IPPO; without memory no policy "
        "beats guessing.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
}
"""By preset, in display order: first language models, then small networks, task by task. Figures as in docs/tuning.md
and docs/environments.md.
"""


def has_words(text: str, wanted: str) -> bool:
    """Whether every word of `wanted` occurs in the text, ignoring case."""
    return all(word in text.casefold() for word in wanted.casefold().split())


def searched_text(name: str, description: str, agents: str) -> str:
    """The text in which a preset is searched; `agents` is the kind of agents in words."""
    about = GALLERY.get(name)
    return " ".join([name, description, agents, about.task if about else "", about.purpose if about else ""])
