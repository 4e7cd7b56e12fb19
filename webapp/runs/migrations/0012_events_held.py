from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0011_values_dropped")]
    operations = [migrations.AddField("run", "events_held", models.BooleanField(default=False))]
