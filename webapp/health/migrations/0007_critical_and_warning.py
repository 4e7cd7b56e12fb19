from django.db import migrations, models

SEVERITY = "CASE {0} WHEN 'bad' THEN 'critical' WHEN 'warn' THEN 'warning' ELSE {0} END"
RENAME = f"""
UPDATE health_finding SET severity = {SEVERITY.format("severity")};
UPDATE runs_run SET finding_counts = (SELECT jsonb_object_agg({SEVERITY.format("key")}, value) FROM jsonb_each(finding_counts))
WHERE finding_counts <> '{{}}'
"""


class Migration(migrations.Migration):
    """Earlier versions called the severities bad and warn, also in the counts on the run."""

    dependencies = [("health", "0001_findings_and_channels"), ("runs", "0001_initial")]
    operations = [
        migrations.AlterField("finding", "severity", models.CharField(choices=[("critical", "Critical"), ("warning", "Warning")], max_length=8)),
        migrations.RunSQL(RENAME, migrations.RunSQL.noop),
    ]
