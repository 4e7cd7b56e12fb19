from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0002_model_preparation'),
    ]

    operations = [
        migrations.AlterField(
            model_name='job',
            name='kind',
            field=models.CharField(choices=[('check', 'check'), ('dry_run', 'dry run'), ('evaluate', 'evaluation'), ('talk', 'conversation'), ('match', 'match'), ('prepare', 'model preparation')], max_length=10),
        ),
    ]
