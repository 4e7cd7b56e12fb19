from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0019_runs_in_the_table")]

    operations = [
        migrations.AddField("attempt", "shared_job", models.CharField(blank=True, db_index=True, max_length=80)),
        migrations.AddField("attempt", "shared_by", models.PositiveSmallIntegerField(default=1)),
    ]
