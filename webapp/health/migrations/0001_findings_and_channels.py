from django.conf import settings
from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True
    dependencies = [('accounts', '0001_initial'), ('runs', '0001_initial')]
    operations = [
        migrations.CreateModel(
            'Checked',
            [
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='checked', serialize=False, to='runs.run')),
                ('cursor', models.BigIntegerField(default=0)),
                ('step', models.BigIntegerField(default=-1)),
            ],
        ),
        migrations.CreateModel(
            'Finding',
            [
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule', models.CharField(max_length=40)),
                ('key', models.CharField(max_length=200)),
                ('state', models.CharField(choices=[('open', 'Open'), ('resolved', 'Resolved'), ('dismissed', 'Dismissed')], default='open', max_length=10)),
                ('severity', models.CharField(max_length=4)),
                ('title', models.CharField(max_length=400)),
                ('first_step', models.BigIntegerField()),
                ('last_step', models.BigIntegerField()),
                ('evidence', models.JSONField(default=dict)),
                ('action', models.CharField(default='none', max_length=8)),
                ('done', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('changed_at', models.DateTimeField(auto_now=True)),
                ('dismissed_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='runs.run')),
                ('fork', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='findings_answered', to='runs.run')),
                ('calm_looks', models.PositiveSmallIntegerField(default=0)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'rule', 'key'), name='one_finding_per_rule_and_key'),
                ],
            },
        ),
    ]
