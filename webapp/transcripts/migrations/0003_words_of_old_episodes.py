from django.db import migrations

AT_ONCE = 200


def fill(apps, schema_editor):
    """Words and environment of the episodes that are there; goes on where it was broken off."""
    import orjson
    import zstandard

    from webapp.transcripts.words import searchable, vector

    Episode = apps.get_model("transcripts", "Episode")
    missing = Episode.objects.filter(words=None).select_related("run", "body").order_by("pk")
    last = 0
    while rows := list(missing.filter(pk__gt=last)[:AT_ONCE]):
        last = rows[-1].pk
        for row in rows:
            body = getattr(row, "body", None)
            document = orjson.loads(zstandard.decompress(bytes(body.data))) if body else {}
            facts = (row.title, row.outcome, row.task, row.name, row.error)
            row.words = vector(row.run_id, searchable(facts, document))
            row.environment = str(row.run.config.get("environment", {}).get("type", ""))[:80]
        Episode.objects.bulk_update(rows, ["words", "environment"])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("transcripts", "0002_words_and_environment")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
