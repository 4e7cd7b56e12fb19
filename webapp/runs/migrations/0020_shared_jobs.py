import django.db.models.deletion
from django.db import migrations, models

COUNTS = """
UPDATE runs_run SET
  series_count = (SELECT count(*) FROM metrics_series WHERE run_id = runs_run.id),
  episode_counts = coalesce((SELECT jsonb_object_agg(kind, counted) FROM (
    SELECT kind, count(*) AS counted FROM transcripts_episode WHERE run_id = runs_run.id GROUP BY kind) AS kinds), '{}')
"""
# The runs of a project take turns, in the order in which they were created.
TONES = """
UPDATE runs_run SET tone = turns.tone FROM (
  SELECT id, 1 + (row_number() OVER (PARTITION BY project_id ORDER BY created_at, id) - 1) % 12 AS tone FROM runs_run
) AS turns WHERE turns.id = runs_run.id
"""
# The number at the end of the name of a checkpoint's folder.
ITERATIONS = r"""
UPDATE runs_run SET parent_iteration = substring(parent_checkpoint FROM '-(\d{1,9})$')::integer WHERE parent_checkpoint ~ '-\d{1,9}$';
UPDATE runs_attempt SET resumed_iteration = substring(resumed_from FROM '-(\d{1,9})$')::integer WHERE resumed_from ~ '-\d{1,9}$'
"""


class Migration(migrations.Migration):
    """From the database of tests/golden/home.tar.xz. An older one, without the column of the first operation, is refused."""

    dependencies = [("runs", "0001_initial"), ("metrics", "0001_initial"), ("transcripts", "0001_initial")]
    operations = [
        migrations.RunSQL("SELECT values_dropped FROM runs_run LIMIT 0", migrations.RunSQL.noop),
        migrations.AddField("attempt", "resumed_iteration", models.IntegerField(default=0)),
        migrations.AddField("attempt", "shared_by", models.PositiveSmallIntegerField(default=1)),
        migrations.AddField("attempt", "shared_job", models.CharField(blank=True, db_index=True, max_length=80)),
        migrations.AddField("run", "episode_counts", models.JSONField(default=dict)),
        migrations.AddField("run", "events_held", models.BooleanField(default=False)),
        migrations.AddField("run", "parent_iteration", models.IntegerField(default=0)),
        migrations.AddField("run", "remedy", models.TextField(blank=True, default="")),
        migrations.AddField("run", "series_count", models.IntegerField(default=0)),
        migrations.AddField("run", "tone", models.PositiveSmallIntegerField(default=0)),
        migrations.AlterField("logline", "run", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="log_lines", to="runs.run")),
        migrations.AddIndex("logline", models.Index(fields=["run", "source", "id"], name="runs_loglin_run_id_4e3a37_idx")),
        migrations.AddIndex("run", models.Index(condition=models.Q(archived=False), fields=["project", "-created_at", "-id"], name="runs_in_the_table")),
        migrations.RunSQL([COUNTS, TONES, ITERATIONS], migrations.RunSQL.noop),
    ]
