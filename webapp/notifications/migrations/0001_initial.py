"""The tables of former versions for webhooks and channels become destinations."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.core.management.color import no_style
from django.db import migrations, models

DESTINATION = "(id, project_id, kind, name, label, sealed_address, sealed_secret, events, enabled, created_by_id, created_at)"
DELIVERY = "(id, destination_id, key, event, payload, state, next_at, tries, \"left\", created_at)"
WEBHOOKS = f"""
    INSERT INTO notifications_destination {DESTINATION}
    SELECT id, project_id, 'webhook', name, host, sealed_address, sealed_secret, events, enabled, created_by_id, created_at
    FROM webhooks_webhook;
    INSERT INTO notifications_delivery {DELIVERY}
    SELECT id, webhook_id, key, event, payload, state, next_at, tries, "left", created_at FROM webhooks_delivery;
    DROP TABLE webhooks_delivery, webhooks_webhook
"""
# A channel keeps its number, with which scripts name it, unless a webhook has that number; then it gets a new one.
CHANNELS = f"""
    INSERT INTO notifications_destination {DESTINATION}
    SELECT CASE WHEN taken.id IS NULL THEN channel.id ELSE top.id + channel.id END, channel.project_id, 'channel',
        channel.name, channel.kind, channel.sealed, '', '["finding.opened"]', true, NULL, channel.created_at
    FROM health_channel channel
    LEFT JOIN notifications_destination taken ON taken.id = channel.id
    CROSS JOIN (
        SELECT greatest((SELECT max(id) FROM health_channel), (SELECT max(id) FROM notifications_destination)) AS id
    ) top;
    DROP TABLE health_channel
"""


def take_over(apps, schema_editor):
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        for table, statement in (("webhooks_webhook", WEBHOOKS), ("health_channel", CHANNELS)):
            if table in tables:
                cursor.execute(statement)
        stored = [apps.get_model("notifications", name) for name in ("Destination", "Delivery")]
        for statement in connection.ops.sequence_reset_sql(no_style(), stored):
            cursor.execute(statement)


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Destination',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=80)),
                ('label', models.CharField(max_length=260)),
                ('sealed_address', models.TextField()),
                ('sealed_secret', models.TextField(blank=True)),
                ('events', models.JSONField(default=list)),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='destinations', to='accounts.project')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('project', 'kind', 'name'), name='one_destination_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('event', models.CharField(max_length=40)),
                ('payload', models.JSONField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('given up', 'Given Up')], default='waiting', max_length=10)),
                ('next_at', models.DateTimeField(null=True)),
                ('tries', models.JSONField(default=list)),
                ('left', models.IntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('destination', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notifications.destination')),
            ],
            options={
                'ordering': ['-pk'],
                'indexes': [
                    models.Index(fields=['state', 'next_at'], name='notificatio_state_66e882_idx'),
                    models.Index(fields=['destination', '-id'], name='notificatio_destina_53c694_idx'),
                ],
            },
        ),
        migrations.RunPython(take_over, migrations.RunPython.noop),
    ]
