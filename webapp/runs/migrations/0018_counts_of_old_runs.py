from django.db import migrations

FILL = """
UPDATE runs_run SET
  series_count = (SELECT count(*) FROM metrics_series WHERE run_id = runs_run.id),
  episode_counts = coalesce((SELECT jsonb_object_agg(kind, counted) FROM (
    SELECT kind, count(*) AS counted FROM transcripts_episode WHERE run_id = runs_run.id GROUP BY kind) AS kinds), '{}')
"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0017_counts"),
        ("metrics", "0005_outlines"),
        ("transcripts", "0010_indexes_of_a_run"),
    ]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
