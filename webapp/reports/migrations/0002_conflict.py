from django.db import migrations


class Migration(migrations.Migration):
    """Versions that were saved too late had the kind "beside"."""

    dependencies = [("reports", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "UPDATE reports_reportversion SET kind = 'conflict' WHERE kind = 'beside'",
            "UPDATE reports_reportversion SET kind = 'beside' WHERE kind = 'conflict'",
        ),
    ]
