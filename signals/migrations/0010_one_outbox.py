from django.db import migrations


class Migration(migrations.Migration):
    """What ``desks`` 0005 moved, and why the table stays."""

    dependencies = [
        ('signals', '0009_failures_told'),
        ('desks', '0005_one_outbox'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='ChatMessage'),
            ],
        ),
    ]
