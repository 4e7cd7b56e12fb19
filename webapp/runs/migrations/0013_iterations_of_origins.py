import re

from django.db import migrations, models

NUMBER = re.compile(r"-(\d{1,9})$")


def number(path):
    """The iteration at the end of a checkpoint's folder name."""
    found = NUMBER.search(path)
    return int(found[1]) if found else 0


def fill(apps, schema_editor):
    """Earlier versions read iterations from the folder names."""
    Run, Attempt = apps.get_model("runs", "Run"), apps.get_model("runs", "Attempt")
    for run in Run.objects.exclude(parent_checkpoint="").only("pk", "parent_checkpoint").iterator():
        Run.objects.filter(pk=run.pk).update(parent_iteration=number(run.parent_checkpoint))
    for attempt in Attempt.objects.exclude(resumed_from="").only("pk", "resumed_from").iterator():
        Attempt.objects.filter(pk=attempt.pk).update(resumed_iteration=number(attempt.resumed_from))


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_events_held")]
    operations = [
        migrations.AddField("run", "parent_iteration", models.IntegerField(default=0)),
        migrations.AddField("attempt", "resumed_iteration", models.IntegerField(default=0)),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
