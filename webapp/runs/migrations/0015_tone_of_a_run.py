from django.db import migrations, models

TONES = 12


def fill(apps, schema_editor):
    """The runs of a project take turns, in the order in which they were created."""
    Run = apps.get_model("runs", "Run")
    for project in Run.objects.order_by().values_list("project", flat=True).distinct():
        ids = list(Run.objects.filter(project=project).order_by("created_at", "pk").values_list("pk", flat=True))
        for tone in range(TONES):
            Run.objects.filter(pk__in=ids[tone::TONES]).update(tone=tone + 1)


class Migration(migrations.Migration):
    dependencies = [("runs", "0014_remedies")]
    operations = [
        migrations.AddField("run", "tone", models.PositiveSmallIntegerField(default=0)),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
