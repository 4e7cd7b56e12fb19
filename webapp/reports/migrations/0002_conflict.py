from django.db import migrations, models


def _renamed(old: str, new: str):
    def change(apps, schema_editor):
        apps.get_model("reports", "ReportVersion").objects.filter(kind=old).update(kind=new)

    return change


class Migration(migrations.Migration):
    """Versions that were saved too late had the kind "beside"."""

    dependencies = [("reports", "0001_initial")]
    operations = [
        migrations.AlterField(
            "reportversion",
            "kind",
            models.CharField(
                max_length=8, choices=[("saved", "Saved"), ("conflict", "Conflict")], default="saved"
            ),
        ),
        migrations.RunPython(_renamed("beside", "conflict"), _renamed("conflict", "beside")),
    ]
