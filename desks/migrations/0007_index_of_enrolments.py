from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('desks', '0006_indexes_of_what_a_desk_has'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='election',
            index=models.Index(condition=models.Q(('card__isnull', False)), fields=['desk', 'opened'], name='election_enrolled'),
        ),
    ]
