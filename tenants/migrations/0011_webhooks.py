import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0010_announcements'),
    ]

    operations = [
        migrations.AlterField(
            model_name='notification',
            name='kind',
            field=models.CharField(choices=[('job_started', 'a job of mine starts'), ('job_ended', 'a job of mine ends'), ('job_failed', 'a job of mine fails'), ('job_preempted', 'a job of mine is stopped for another'), ('request_decided', 'a request of mine is answered'), ('request_waiting', 'a request waits for an operator'), ('quota_ending', 'quota of a tenant that I lead ends'), ('webhook_dead', 'a webhook of mine is given up')], max_length=20),
        ),
        migrations.AlterField(
            model_name='notificationchoice',
            name='kind',
            field=models.CharField(choices=[('job_started', 'a job of mine starts'), ('job_ended', 'a job of mine ends'), ('job_failed', 'a job of mine fails'), ('job_preempted', 'a job of mine is stopped for another'), ('request_decided', 'a request of mine is answered'), ('request_waiting', 'a request waits for an operator'), ('quota_ending', 'quota of a tenant that I lead ends'), ('webhook_dead', 'a webhook of mine is given up')], max_length=20),
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('name', models.CharField(max_length=60)),
                ('style', models.CharField(choices=[('slack', 'Slack or Mattermost'), ('feishu', 'Feishu'), ('dingtalk', 'DingTalk'), ('wecom', 'WeCom'), ('generic', 'a program of yours (signed JSON)')], max_length=10)),
                ('url', models.TextField()),
                ('secret', models.CharField(blank=True, max_length=200)),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('job_started', 'a job of mine starts'), ('job_ended', 'a job of mine ends'), ('job_failed', 'a job of mine fails'), ('job_preempted', 'a job of mine is stopped for another'), ('request_decided', 'a request of mine is answered'), ('request_waiting', 'a request waits for an operator'), ('quota_ending', 'quota of a tenant that I lead ends'), ('webhook_dead', 'a webhook of mine is given up')], max_length=20), size=None)),
                ('failures', models.PositiveSmallIntegerField(default=0)),
                ('last_error', models.CharField(blank=True, max_length=200)),
                ('next_at', models.DateTimeField(blank=True, null=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('dead_at', models.DateTimeField(blank=True, null=True)),
                ('made_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to='tenants.tenant')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='WebhookNotice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('job_started', 'a job of mine starts'), ('job_ended', 'a job of mine ends'), ('job_failed', 'a job of mine fails'), ('job_preempted', 'a job of mine is stopped for another'), ('request_decided', 'a request of mine is answered'), ('request_waiting', 'a request waits for an operator'), ('quota_ending', 'quota of a tenant that I lead ends'), ('webhook_dead', 'a webhook of mine is given up')], max_length=20)),
                ('key', models.CharField(max_length=64)),
                ('facts', models.JSONField(default=dict)),
                ('link', models.CharField(max_length=200)),
                ('happened_at', models.DateTimeField()),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='tenants.webhook')),
            ],
        ),
        migrations.AddConstraint(
            model_name='webhook',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('tenant__isnull', True), ('user__isnull', False)), models.Q(('tenant__isnull', False), ('user__isnull', True)), _connector='OR'), name='webhook_of_a_person_or_a_tenant'),
        ),
        migrations.AddConstraint(
            model_name='webhook',
            constraint=models.UniqueConstraint(fields=('user', 'name'), name='webhook_once_per_person'),
        ),
        migrations.AddConstraint(
            model_name='webhook',
            constraint=models.UniqueConstraint(fields=('tenant', 'name'), name='webhook_once_per_tenant'),
        ),
        migrations.AddIndex(
            model_name='webhooknotice',
            index=models.Index(condition=models.Q(('sent_at__isnull', True)), fields=['webhook', 'id'], name='webhook_notice_to_send'),
        ),
        migrations.AddIndex(
            model_name='webhooknotice',
            index=models.Index(fields=['made_at'], name='webhook_notice_by_age'),
        ),
        migrations.AddConstraint(
            model_name='webhooknotice',
            constraint=models.UniqueConstraint(fields=('webhook', 'key'), name='webhook_notice_once'),
        ),
    ]
