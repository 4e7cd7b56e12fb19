from django.db import migrations

AT_ONCE = 200


def fill(apps, schema_editor):
    """Figures by role and turn of the episodes whose body is stored; continues after an interruption."""
    from webapp.transcripts.bodies import unpacked
    from webapp.transcripts.services import advantages_add, facts_of

    Episode = apps.get_model("transcripts", "Episode")
    Annotation = apps.get_model("transcripts", "EpisodeAnnotation")
    missing = Episode.objects.filter(roles={}, body__isnull=False).exclude(turn_count=0)
    last = 0
    while rows := list(missing.filter(pk__gt=last).select_related("body").order_by("pk")[:AT_ONCE]):
        last = rows[-1].pk
        by_name = {(row.run_id, row.name, row.attempt): row for row in rows}
        for row in rows:
            row.roles, row.groups = facts_of(unpacked(row.body.data)["turns"])
        notes = Annotation.objects.filter(
            run_id__in={row.run_id for row in rows}, episode_name__in=[row.name for row in rows]
        )
        for note in notes.order_by("pk"):
            if row := by_name.get((note.run_id, note.episode_name, note.attempt)):
                advantages_add(row.roles, row.groups, unpacked(note.data)["turns"])
        Episode.objects.bulk_update(rows, ["roles", "groups"])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("transcripts", "0008_queries")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
