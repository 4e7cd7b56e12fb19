from django.db import migrations

AT_ONCE = 20
SHORTEST = 512


def fill(apps, schema_editor):
    """Steps and outlines of the long chunks that are there; continues after an interruption. Short ones are read whole."""
    from webapp.metrics.arrays import unpack_floats, unpack_ints
    from webapp.metrics.points import outline_of, outline_pack

    Chunk = apps.get_model("metrics", "Chunk")
    missing = Chunk.objects.filter(first_step=None, count__gte=SHORTEST).order_by("pk")
    last = 0
    while rows := list(missing.filter(pk__gt=last)[:AT_ONCE]):
        for row in rows:
            steps = unpack_ints(row.steps)
            row.first_step, row.last_step = int(steps.min()), int(steps.max())
            row.outline = outline_pack(outline_of(steps, unpack_floats(row.values), unpack_floats(row.times)))
        Chunk.objects.bulk_update(rows, ["first_step", "last_step", "outline"])
        last = rows[-1].pk


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("metrics", "0005_outlines")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
