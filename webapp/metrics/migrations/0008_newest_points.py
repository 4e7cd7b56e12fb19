from django.db import migrations

MARK = """
INSERT INTO metrics_block (run_id, "group", attempt, cursor, count, series, steps, "values", times, summed)
SELECT run_id, min(series.id) / 1024, 0, event_count, 0, '', '', '', '', true
FROM metrics_series AS series JOIN runs_run ON runs_run.id = run_id WHERE NOT wide GROUP BY run_id, event_count
"""


class Migration(migrations.Migration):
    """Earlier versions stored new points of most metrics in chunks: clients that are behind read them there."""

    dependencies = [("metrics", "0007_blocks"), ("runs", "0001_initial")]
    operations = [migrations.RunSQL(MARK, migrations.RunSQL.noop)]
