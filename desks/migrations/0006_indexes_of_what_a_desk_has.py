from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('desks', '0005_one_outbox'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='automation',
            index=models.Index(condition=models.Q(('removed_at__isnull', True)), fields=['desk'], name='bot_of_desk'),
        ),
        migrations.AddIndex(
            model_name='election',
            index=models.Index(condition=models.Q(('closed__isnull', True)), fields=['desk', 'opened'], name='election_open'),
        ),
    ]
