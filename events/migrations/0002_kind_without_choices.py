"""A new kind of event needs no migration. The column stays as it is."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('events', '0001_initial'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='event',
                    name='kind',
                    field=models.CharField(max_length=32),
                ),
            ],
        ),
    ]
