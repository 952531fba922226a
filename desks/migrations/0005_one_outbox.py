"""Moves what the first outbox holds into the present one, and forgets the tables of the first.

No code uses them any more. A release that does may still serve, so they stay, except in a new
database, which no other release has served. What such a release writes there from now on is to be
moved by the migration that drops them.
"""

from collections import defaultdict

from django.db import migrations
from django.utils import timezone

KEPT = ('public_id', 'user_id', 'kind', 'address', 'about', 'subject', 'body', 'priority', 'due_at')
AT_ONCE = 500


def move(apps, schema_editor):
    """A message goes to its chat, and a notice to each channel that still waits for it."""
    notice, message = apps.get_model('desks', 'Notice'), apps.get_model('signals', 'ChatMessage')
    queued = apps.get_model('desks', 'QueuedNotice')
    # The locks come first: what another process shares with chats meanwhile is read after that.
    notices = list(notice.objects.select_for_update().order_by('pk'))
    messages = list(message.objects.select_related('chat').order_by('pk'))
    rows = [
        queued(
            user_id=old.chat.user_id,
            channel=old.chat.service,
            chat_id=old.chat_id,
            kind=old.kind,
            subject=old.subject,
            body=old.body,
            priority=old.priority,
            due_at=timezone.now(),
        )
        for old in messages
    ]
    chats = defaultdict(list)
    for chat in apps.get_model('signals', 'Chat').objects.filter(problem='').order_by('pk'):
        chats[chat.user_id].append(chat)
    for old in notices:
        values = {name: getattr(old, name) for name in KEPT}
        if old.mailed_at is None:
            rows.append(queued(**values))
        if not old.is_shared and not old.address:
            for chat in chats[old.user_id]:
                rows.append(queued(**values, channel=chat.service, chat_id=chat.pk))
    queued.objects.bulk_create(rows, batch_size=AT_ONCE)
    for moved in (notices, messages):
        for start in range(0, len(moved), AT_ONCE):
            pks = [old.pk for old in moved[start : start + AT_ONCE]]
            type(moved[0]).objects.filter(pk__in=pks).delete()


def drop_in_a_new_database(apps, schema_editor):
    if not apps.get_model('desks', 'User').objects.exists():
        for app, model in (('desks', 'Notice'), ('desks', 'Digest'), ('signals', 'ChatMessage')):
            schema_editor.delete_model(apps.get_model(app, model))


class Migration(migrations.Migration):

    dependencies = [
        ('desks', '0004_bot_in_words'),
        ('signals', '0009_failures_told'),
    ]

    operations = [
        migrations.RunPython(move, migrations.RunPython.noop),
        migrations.RunPython(drop_in_a_new_database, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='Notice'),
                migrations.DeleteModel(name='Digest'),
            ],
        ),
    ]
