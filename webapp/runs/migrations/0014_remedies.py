from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0013_iterations_of_origins")]
    operations = [migrations.AddField("run", "remedy", models.TextField(blank=True, default=""))]
