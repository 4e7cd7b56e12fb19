from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    dependencies = [('accounts', '0002_initial')]
    operations = [
        migrations.AddField('ApiToken', 'runs_per_day', models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField(
            'AuditEntry',
            'token',
            models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='audit_entries', to='accounts.apitoken'),
        ),
    ]
