from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds columns with constant defaults and drops an index; no table is rewritten."""

    dependencies = [("runs", "0016_sources_of_lines")]

    operations = [
        migrations.AddField("run", "series_count", models.IntegerField(default=0)),
        migrations.AddField("run", "episode_counts", models.JSONField(default=dict)),
        migrations.AlterField(
            "logline",
            "run",
            models.ForeignKey("runs.Run", db_index=False, on_delete=models.deletion.CASCADE, related_name="log_lines"),
        ),
    ]
