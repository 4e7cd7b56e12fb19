"""Addresses of channels hold secrets: those that stand in plain text are encrypted, and the column is called by what it holds."""

from django.db import migrations, models

from webapp.common.sealing import seal, unseal

PURPOSE = "channel address"


def close(apps, schema_editor):
    for channel in apps.get_model("health", "Channel").objects.iterator():
        channel.kind = channel.sealed.partition("://")[0][:20]
        channel.sealed = seal(channel.sealed, PURPOSE)
        channel.save(update_fields=["kind", "sealed"])


def disclose(apps, schema_editor):
    for channel in apps.get_model("health", "Channel").objects.iterator():
        channel.sealed = unseal(channel.sealed, PURPOSE)
        channel.save(update_fields=["sealed"])


class Migration(migrations.Migration):
    dependencies = [("health", "0002_forks_for_findings")]
    operations = [
        migrations.AddField("channel", "kind", models.CharField(default="", max_length=20), preserve_default=False),
        migrations.RenameField("channel", "address", "sealed"),
        migrations.AlterField("channel", "sealed", models.TextField()),
        migrations.RunPython(close, disclose),
    ]
