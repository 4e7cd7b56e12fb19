from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("runs", "0018_counts_of_old_runs")]

    operations = [
        AddIndexConcurrently(
            "run",
            models.Index(
                fields=["project", "-created_at", "-id"], name="runs_in_the_table", condition=models.Q(archived=False)
            ),
        ),
    ]
