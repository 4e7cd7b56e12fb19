import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metrics", "0006_outlines_of_old_chunks"), ("runs", "0018_counts_of_old_runs")]

    operations = [
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
    ]
