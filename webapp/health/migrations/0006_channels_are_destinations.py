from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("health", "0005_calm_looks"), ("notifications", "0001_initial")]
    operations = [migrations.DeleteModel("Channel")]
