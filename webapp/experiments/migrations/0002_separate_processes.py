from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0001_groundwork")]

    operations = [migrations.AddField("sweep", "separate_processes", models.BooleanField(default=False))]
