import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("runs", "0022_media_count"),
    ]

    operations = [
        migrations.CreateModel(
            name="MlflowExperiment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=500)),
                ("tags", models.JSONField(default=dict)),
                ("archived", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="mlflow_experiments", to="accounts.project")),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="one_mlflow_experiment_per_name")],
            },
        ),
        migrations.CreateModel(
            name="MlflowRun",
            fields=[
                ("run", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="mlflow", serialize=False, to="runs.run")),
                ("params", models.JSONField(default=dict)),
                ("tags", models.JSONField(default=dict)),
                ("inputs", models.JSONField(default=list)),
                ("requests", models.JSONField(default=list)),
                ("experiment", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="mlflow.mlflowexperiment")),
            ],
        ),
    ]
