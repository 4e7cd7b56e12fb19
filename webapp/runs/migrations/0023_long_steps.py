"""Steps of custom programs have 64 bits, as in their metrics."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0022_media_count")]
    operations = [
        migrations.AlterField("run", "iteration", models.BigIntegerField(default=0)),
        migrations.AlterField("run", "iterations", models.BigIntegerField()),
        migrations.AlterField("attempt", "resumed_iteration", models.BigIntegerField(default=0)),
    ]
