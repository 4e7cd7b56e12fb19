"""Scripts of other libraries as their documents write them for MLflow; none of them knows Troupe. Each takes MLFLOW_TRACKING_URI."""

TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
rows = [{"input_ids": [token, token + 1], "labels": token % 2} for token in range(16)]
arguments = TrainingArguments(
    output_dir=FOLDER, report_to="mlflow", run_name="tiny bert", logging_steps=1, max_steps=6, eval_strategy="steps", eval_steps=3,
    learning_rate=1e-3, use_cpu=True, save_strategy="no", disable_tqdm=True,
)
Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows, eval_dataset=rows).train()
"""
STABLE_BASELINES = """
import mlflow
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.logger import KVWriter, Logger

class MLflowOutputFormat(KVWriter):
    def write(self, key_values, key_excluded, step=0):
        for (key, value), (_, excluded) in zip(sorted(key_values.items()), sorted(key_excluded.items())):
            if excluded is not None and "mlflow" in excluded:
                continue
            if isinstance(value, np.ScalarType) and not isinstance(value, str):
                mlflow.log_metric(key, value, step)

mlflow.set_experiment("ppo")
with mlflow.start_run(run_name="cartpole"):
    mlflow.log_params({"n_steps": 64, "learning_rate": 0.0003})
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[MLflowOutputFormat()]))
    model.learn(total_timesteps=192, log_interval=1)
"""
LIGHTNING = """
import torch
import lightning
from lightning.pytorch.loggers import MLFlowLogger

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters({"lr": 0.1})
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        loss = ((self.layer(batch) - 2 * batch) ** 2).mean()
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lightning.seed_everything(0)
logger = MLFlowLogger(experiment_name="line", run_name="fit", tracking_uri=URI)
trainer = lightning.Trainer(
    max_steps=5, logger=logger, log_every_n_steps=1, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
)
trainer.fit(Line(), torch.utils.data.DataLoader(torch.linspace(0, 1, 16).reshape(16, 1), batch_size=4))
"""
LIGHTNING_AUTOLOG = """
import lightning
import mlflow
import torch

class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, index):
        loss = ((self.layer(batch) - 2 * batch) ** 2).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lightning.seed_everything(0)
mlflow.pytorch.autolog()
trainer = lightning.Trainer(max_epochs=6, logger=False, enable_progress_bar=False, accelerator="cpu", default_root_dir=FOLDER)
with mlflow.start_run(run_name="fit by autolog") as run:
    trainer.fit(Line(), torch.utils.data.DataLoader(torch.linspace(0, 1, 16).reshape(16, 1), batch_size=4))
model = mlflow.pytorch.load_model(f"runs:/{run.info.run_id}/model")
assert model.layer.weight.shape == (1, 1)
"""
