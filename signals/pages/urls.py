from django.urls import path

from signals.pages import chats, credentials, desk, notices
from signals.pages.activity.export import export
from signals.pages.activity.listing import activity
from signals.pages.activity.one_event import one_event
from signals.pages.bots.alarm import alarm
from signals.pages.bots.changes import elect, remove, withdraw
from signals.pages.bots.check import check
from signals.pages.bots.listing import bots
from signals.pages.bots.overview import overview
from signals.pages.bots.sending import send, tradingview
from signals.pages.digest import digest
from signals.pages.news import desk_news
from signals.pages.subscriptions.changes import act, change, new, secret
from signals.pages.subscriptions.changes import remove as remove_webhook
from signals.pages.subscriptions.overview import webhook, webhooks

urlpatterns = [
    path("desk", desk.overview, name="desk"),
    path("desk/connect", desk.connect, name="connect"),
    path("desk/disconnect", desk.disconnect, name="disconnect"),
    path("desk/enrol", desk.enrol, name="enrol"),
    path("desk/withdraw", desk.withdraw, name="withdraw"),
    path("desk/token", credentials.mint, name="mint"),
    path("desk/token/revoke", credentials.revoke, name="revoke"),
    path("desk/end", credentials.end_credentials, name="end-credentials"),
    path("bots", bots, name="bots"),
    path("bots/<str:bot_id>", overview, name="bot"),
    path("bots/<str:bot_id>/send", send, name="send"),
    path("bots/<str:bot_id>/tradingview", tradingview, name="tradingview"),
    path("bots/<str:bot_id>/elect", elect, name="elect"),
    path("bots/<str:bot_id>/withdraw", withdraw, name="withdraw-bot"),
    path("bots/<str:bot_id>/check", check, name="check"),
    path("bots/<str:bot_id>/alarm", alarm, name="alarm"),
    path("bots/<str:bot_id>/remove", remove, name="remove-bot"),
    path("bots/<str:bot_id>/secret", credentials.generate, name="generate"),
    path("bots/<str:bot_id>/secrets/<str:secret_id>/end", credentials.end, name="end-secret"),
    path("notices", notices.notices, name="notices"),
    path("notices/test", notices.test_notice, name="test-notice"),
    path("notices/chats/new", chats.new, name="new-chat"),
    path("notices/chats/telegram", chats.new_telegram, name="new-telegram"),
    path("notices/chats/<str:chat_id>/test", chats.test, name="test-chat"),
    path("notices/chats/<str:chat_id>/remove", chats.remove, name="remove-chat"),
    path("notices/digest", digest, name="digest"),
    path("notices/stop/<str:token>", notices.stop, name="stop-notices"),
    path("webhooks", webhooks, name="webhooks"),
    path("webhooks/new", new, name="new-webhook"),
    path("webhooks/<str:webhook_id>", webhook, name="webhook"),
    path("webhooks/<str:webhook_id>/act", act, name="webhook-act"),
    path("webhooks/<str:webhook_id>/change", change, name="change-webhook"),
    path("webhooks/<str:webhook_id>/secret", secret, name="webhook-secret"),
    path("webhooks/<str:webhook_id>/remove", remove_webhook, name="remove-webhook"),
    path("activity", activity, name="activity"),
    path("activity.csv", export, name="activity-csv"),
    path("activity/stream", desk_news, name="stream"),
    path("activity/<str:event_id>", one_event, name="event"),
]
