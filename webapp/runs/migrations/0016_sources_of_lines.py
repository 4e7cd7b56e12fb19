from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0015_tone_of_a_run")]
    operations = [
        migrations.AddIndex("logline", models.Index(fields=["run", "source", "id"], name="runs_loglin_run_id_4e3a37_idx")),
    ]
