from django.db import migrations, models

NAMES = {"bad": "critical", "warn": "warning"}


def rename(apps, schema_editor):
    """Earlier versions called the severities bad and warn, also in the counts on the run."""
    Finding, Run = apps.get_model("health", "Finding"), apps.get_model("runs", "Run")
    for old, new in NAMES.items():
        Finding.objects.filter(severity=old).update(severity=new)
    for run in Run.objects.exclude(finding_counts={}).only("pk", "finding_counts").iterator():
        counts = {NAMES.get(name, name): count for name, count in run.finding_counts.items()}
        Run.objects.filter(pk=run.pk).update(finding_counts=counts)


class Migration(migrations.Migration):
    dependencies = [("health", "0006_channels_are_destinations"), ("runs", "0013_iterations_of_origins")]
    operations = [
        migrations.AlterField(
            "finding",
            "severity",
            models.CharField(max_length=8, choices=[("critical", "Critical"), ("warning", "Warning")]),
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
