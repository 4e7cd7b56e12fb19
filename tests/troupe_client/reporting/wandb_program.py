"""A program that reports to Weights & Biases and knows nothing of Troupe. Its argument is the way in which it ends."""

import sys

import numpy as np
import wandb

wandb.login()
run = wandb.init(
    project="demo", name="first", config={"lr": 0.001, "model": {"layers": 2}}, tags=["a"], notes="a note",
    group="g", job_type="train",
)  # fmt: skip
wandb.config.update({"completed": 5})
wandb.define_metric("acc", summary="max")
for step in range(3):
    wandb.log({"loss": 1 / (step + 1), "acc": np.float32([0.1, 0.9, 0.4][step]), "deep": {"x": step}})
wandb.log({"strange": float("nan"), "infinite": float("inf"), "none": None, "text": "a word"})
picture = np.zeros((4, 4, 3), dtype=np.uint8)
wandb.log(
    {
        "weights": wandb.Histogram(np.arange(10.0), num_bins=2),
        "picture": wandb.Image(picture, caption="black"),
        "pictures": [wandb.Image(picture + value, caption=str(value)) for value in (1, 2)],
    },
    commit=False,
)
table = wandb.Table(columns=["a", "b"], data=[[1, "x"], [2.5, None]])
wandb.log({"rows": table, "page": wandb.Html("<b>x</b>"), "line": wandb.plot.line(table, "a", "a")})
wandb.log({"loss": 0.25}, step=10)
wandb.log({"acc": 0.5})
run.summary["best"] = 0.75
run.summary["verdict"] = "good"
wandb.alert("title", "text")
match sys.argv[1]:
    case "error":
        raise ValueError("no luck")
    case "block":
        with run:
            raise ValueError("in the block")
    case "code":
        wandb.finish(exit_code=3)
    case "exit":
        sys.exit(4)
    case "config":
        wandb.config.update({"late": {"x": 1}})
