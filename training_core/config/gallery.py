"""What is said of each preset before somebody chooses it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """Purpose in one line, and what to expect."""

    task: str
    """What is played: presets of one task are listed together."""
    purpose: str
    time: str
    """How long it takes, and on what machine."""
    result: str
    """Which metric ends where."""


GALLERY: dict[str, Expected] = {
    "plan_path_duo": Expected(
        task="Plan-Path",
        purpose="Two agents learn to need each other: one sees the goal, the other the walls.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.2 to 0.98 or more (greedy, 256 held-out tasks)",
    ),
    "plan_path_ppo": Expected(
        task="Plan-Path",
        purpose="plan_path_duo by PPO: a critic in place of comparisons within a group.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.18 to 0.98 by iteration 60 (greedy, 256 held-out tasks, one seed)",
    ),
    "plan_path_self_play": Expected(
        task="Plan-Path",
        purpose="One policy in both seats of plan_path_duo, each seat with a baseline of its own (RAE).",
        time="about 1 minute on two CPU cores",
        result="success from 0.18 to 0.97 by iteration 60 (greedy, 256 held-out tasks, one seed)",
    ),
    "plan_path_single": Expected(
        task="Plan-Path",
        purpose="One agent sees goal and walls and walks alone: the control for plan_path_duo.",
        time="about 1 minute on two CPU cores",
        result="success from 0.4 to 0.96 by iteration 10 (greedy, 256 held-out tasks)",
    ),
    "plan_path_trio": Expected(
        task="Plan-Path",
        purpose="Three agents, one policy each: planner and scout speak at the same time, the executor walks by both.",
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
        purpose="Plan-Path on 6×6 with more walls than plan_path_duo; the seed's 10×10 is an override away.",
        time="a few minutes on two CPU cores",
        result="success from 0.17 to 0.82 (greedy, 128 held-out tasks, one seed)",
    ),
    "sudoku": Expected(
        task="Puzzles",
        purpose="Where and what: one agent finds the square that leaves no choice, the other works out its digit.",
        time="2 to 3 minutes on two CPU cores",
        result="success from 0.2 to about 0.9 (greedy, 256 held-out tasks, one seed)",
    ),
    "sokoban": Expected(
        task="Puzzles",
        purpose="Where to and how: one agent sees the goals, the other walks round the box and pushes.",
        time="a few minutes on two CPU cores",
        result="success from 0.36 to 0.63 (greedy, 128 held-out tasks, one seed)",
    ),
    "eight_queens": Expected(
        task="Puzzles",
        purpose="Which and where: one agent picks the queen to move, the other, who sees one row, finds its square.",
        time="a few minutes on two CPU cores",
        result="success from 0.09 to 0.79 (sampled, 128 held-out tasks, one seed)",
    ),
    "blocksworld": Expected(
        task="Puzzles",
        purpose="What next and how: one agent knows the piles that are wanted, the other what stands in the way.",
        time="a few minutes on two CPU cores",
        result="success from 0.20 to 0.65 (greedy, 128 plays of the held-out tasks, one seed)",
    ),
    "arithmetic": Expected(
        task="Sums and programs",
        purpose="A pair does sums: one agent writes them for a calculator, the other reads the result and answers in a box.",
        time="1 minute on two CPU cores",
        result="success from 0.26 (sampled) and 0.56 (greedy) to 0.9 or more on 256 held-out tasks",
    ),
    "arithmetic_pretrained": Expected(
        task="Sums and programs",
        purpose="A solver and a checker do sums in plain English: SmolLM2-135M-Instruct for both roles, an adapter for each.",
        time="about 10 minutes on one CPU core, 2 GB of memory",
        result="success from 0.11 to 0.76 on sums that are never trained on (greedy, 128 tasks, two seeds)",
    ),
    "multi_turn_math": Expected(
        task="Sums and programs",
        purpose="A reasoner does sums in its head; told that it is wrong it tries again, for a tenth less each time.",
        time="a few minutes on two CPU cores",
        result="reward of sampled play from 0.2 to 0.45 by iteration 11, on held-out sums from 0.21 to 0.33 (three seeds)",
    ),
    "coding": Expected(
        task="Sums and programs",
        purpose="A tester and a coder write a program, which really runs: hidden tests judge it.",
        time="1 to 2 minutes on two CPU cores",
        result="success from 0.1 to 1.0 by iteration 20 (greedy, 64 held-out tasks, one seed)",
    ),
    "spread_toy": Expected(
        task="Toys",
        purpose="Five small networks name five slots: the smallest task of all, solved while one looks.",
        time="a few seconds on one CPU core",
        result="eval/return at 125, the most there is, within 32 iterations (6,400 steps)",
    ),
    "foraging_mappo": Expected(
        task="Toys",
        purpose="Three agents share the work of gathering food on a grid.",
        time="half a minute on one CPU core",
        result="eval/return at 5.9 of at most 6 within 25 iterations",
    ),
    "hetero_mappo": Expected(
        task="Toys",
        purpose="Scouts see a hint and signal it; workers know only what scouts tell them.",
        time="half a minute on one CPU core",
        result="eval/return at 48 of at most 50 (the first step is a guess) within 150 iterations",
    ),
    "spread_mappo": Expected(
        task="Particles (MPE)",
        purpose="MAPPO on MPE simple_spread: three agents cover three landmarks, the critic sees all of them.",
        time="4 to 5 minutes on one CPU core",
        result="eval/return from -80 past -45 within half a minute and past -30 within one, to about -24 (sum over agents, 25 steps)",
    ),
    "spread_ippo": Expected(
        task="Particles (MPE)",
        purpose="IPPO on MPE simple_spread: the critic sees what its own agent sees; the control for spread_mappo.",
        time="about 5 minutes on one CPU core",
        result="eval/return from -80 past -45 within half a minute and past -30 within two, to about -26 (sum over agents, 25 steps)",
    ),
    "tag_mappo": Expected(
        task="Particles (MPE)",
        purpose="MPE simple_tag: three adversaries chase a faster agent; two policies that learn against each other.",
        time="about 2 minutes on one CPU core",
        result="at its end (sampled, sums) adversaries earn 80 and the good agent -36; before learning 14 and -17",
    ),
    "reference_mappo": Expected(
        task="Particles (MPE)",
        purpose="MPE simple_reference: two agents tell each other where to go, in letters whose meaning they agree on.",
        time="about 4 minutes on one CPU core",
        result="eval/return from -56 to -35 (the middle, in silence), to -16 by 2.6 million steps: they talk. Written talk: -17",
    ),
    "recall_mappo_gru": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with a GRU, by MAPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_mappo_lstm": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with an LSTM, by MAPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_mappo_transformer": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with a transformer, by MAPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_gru": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with a GRU, by IPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_lstm": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with an LSTM, by IPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
    "recall_ippo_transformer": Expected(
        task="Memory",
        purpose="Two agents keep a cue in mind over eight steps with a transformer, by IPPO; without memory nothing beats a guess.",
        time="under a minute on one CPU core",
        result="eval/return from 0.5 (a guess) to 2.0 (both always right) within 60 iterations",
    ),
}
"""By preset, in the order in which they are offered: first language models, then small networks, task by task. Figures
as in docs/tuning.md and docs/environments.md."""
AGENTS = {"language_models": "Language models", "networks": "Small networks"}
"""What the agents of a preset are, in words, by the names of training_core.config.kinds."""


def has_words(text: str, wanted: str) -> bool:
    """Whether every word of `wanted` occurs in the text, in capitals or not."""
    return all(word in text.casefold() for word in wanted.casefold().split())


def searched_text(name: str, description: str, agents: str) -> str:
    """What a preset is found by; `agents` as in AGENTS."""
    about = GALLERY.get(name)
    return " ".join(
        [name, description, AGENTS[agents], about.task if about else "", about.purpose if about else ""]
    )
