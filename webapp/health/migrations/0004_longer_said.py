from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("health", "0003_sealed_addresses")]
    operations = [migrations.AlterField("channel", "said", models.CharField(blank=True, max_length=600))]
