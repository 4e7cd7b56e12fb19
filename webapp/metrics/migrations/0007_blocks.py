import django.db.models.deletion
from django.db import migrations, models

AT_ONCE = 20
SHORTEST = 512


def fill(apps, schema_editor):
    """Steps and outlines of the long chunks that are there. Short ones are read whole."""
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
    dependencies = [("metrics", "0001_initial"), ("runs", "0001_initial")]
    operations = [
        migrations.AddField("chunk", "first_step", models.BigIntegerField(null=True)),
        migrations.AddField("chunk", "last_step", models.BigIntegerField(null=True)),
        migrations.AddField("chunk", "outline", models.BinaryField(null=True)),
        migrations.AddField("series", "wide", models.BooleanField(db_default=False, default=False)),
        migrations.CreateModel(
            "Block",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                ("cursor", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("series", models.BinaryField()),
                ("steps", models.BinaryField()),
                ("values", models.BinaryField()),
                ("times", models.BinaryField()),
                ("cursors", models.BinaryField(null=True)),
                ("summed", models.BooleanField(default=False)),
                ("run", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="blocks", to="runs.run", db_index=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["run", "cursor"], name="blocks_of_a_run"),
                    models.Index(fields=["group", "cursor"], name="blocks_of_a_group"),
                ]
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
