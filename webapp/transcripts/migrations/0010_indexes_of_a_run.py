from django.db import migrations, models


class Migration(migrations.Migration):
    """Drops an index; no table is rewritten."""

    dependencies = [("transcripts", "0009_figures_of_old_episodes"), ("runs", "0017_counts")]

    operations = [
        migrations.AlterField(
            "episode",
            "run",
            models.ForeignKey("runs.Run", db_index=False, on_delete=models.deletion.CASCADE, related_name="episodes"),
        ),
    ]
