from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_resume_from_a_checkpoint")]
    operations = [migrations.AddField("run", "values_dropped", models.BigIntegerField(default=0))]
