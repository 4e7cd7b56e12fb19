from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metrics", "0004_extremes_of_old_series")]

    operations = [
        migrations.AddField("chunk", "first_step", models.BigIntegerField(null=True)),
        migrations.AddField("chunk", "last_step", models.BigIntegerField(null=True)),
        migrations.AddField("chunk", "outline", models.BinaryField(null=True)),
    ]
