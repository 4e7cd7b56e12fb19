from django.db import migrations

LONGEST = 4000


def move(apps, schema_editor):
    """What a run carried as text becomes a note of its owner on the whole run."""
    Run, RunNote = apps.get_model("runs", "Run"), apps.get_model("runs", "RunNote")
    for run in Run.objects.exclude(notes="").only("pk", "owner_id", "notes").iterator():
        RunNote.objects.create(run_id=run.pk, author_id=run.owner_id, text=run.notes[:LONGEST])


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_saved_views")]

    operations = [
        migrations.RunPython(move, migrations.RunPython.noop),
    ]
