from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [('jobs', '0001_short_jobs')]
    operations = [
        migrations.AlterField(
            'job',
            'kind',
            models.CharField(choices=[('check', 'check'), ('dry_run', 'dry run'), ('evaluate', 'evaluation'), ('talk', 'conversation'), ('match', 'match'), ('prepare', 'model preparation'), ('what_if', 'what if'), ('worth', 'worth of messages')], max_length=10),
        ),
    ]
