"""The paths of the API, below ``/api/``, and of the pages of all packages."""

from django.urls import path

from signals.contract.wheel import FILE, client_wheel
from signals.intake import api as intake_api
from signals.notices import pages as notices
from signals.site import activity, credentials, desk, home
from signals.site.bots import api as bots_api
from signals.site.bots import pages as bots
from signals.webhooks import api as webhooks_api
from signals.webhooks import pages as webhooks

api = [*webhooks_api.urlpatterns, *intake_api.urlpatterns, *bots_api.urlpatterns]

pages = [
    path("", home.home, name="home"),
    path("desk", desk.overview, name="desk"),
    path("desk/connect", desk.connect, name="connect"),
    path("desk/disconnect", desk.disconnect, name="disconnect"),
    path("desk/enrol", desk.enrol, name="enrol"),
    path("desk/withdraw", desk.withdraw, name="withdraw"),
    path("desk/token", credentials.mint, name="mint"),
    path("desk/token/revoke", credentials.revoke, name="revoke"),
    path("desk/end", credentials.end_credentials, name="end-credentials"),
    path("bots", bots.bots, name="bots"),
    path("bots/<str:bot_id>", bots.overview, name="bot"),
    path("bots/<str:bot_id>/send", bots.send, name="send"),
    path("bots/<str:bot_id>/tradingview", bots.tradingview, name="tradingview"),
    path("bots/<str:bot_id>/elect", bots.elect, name="elect"),
    path("bots/<str:bot_id>/withdraw", bots.withdraw, name="withdraw-bot"),
    path("bots/<str:bot_id>/check", bots.check, name="check"),
    path("bots/<str:bot_id>/alarm", bots.alarm, name="alarm"),
    path("bots/<str:bot_id>/remove", bots.remove, name="remove-bot"),
    path("bots/<str:bot_id>/secret", credentials.generate, name="generate"),
    path("bots/<str:bot_id>/secrets/<str:secret_id>/end", credentials.end, name="end-secret"),
    path("notices", notices.notices, name="notices"),
    path("notices/test", notices.test_notice, name="test-notice"),
    path("notices/chats/new", notices.new_chat, name="new-chat"),
    path("notices/chats/new/telegram", notices.new_telegram, name="new-telegram"),
    path("notices/chats/<str:chat_id>/remove", notices.remove_chat, name="remove-chat"),
    path("notices/stop/<str:token>", notices.stop, name="stop-notices"),
    path("webhooks", webhooks.webhooks, name="webhooks"),
    path("webhooks/new", webhooks.new, name="new-webhook"),
    path("webhooks/<str:webhook_id>", webhooks.webhook, name="webhook"),
    path("webhooks/<str:webhook_id>/act", webhooks.act, name="webhook-act"),
    path("webhooks/<str:webhook_id>/change", webhooks.change, name="change-webhook"),
    path("webhooks/<str:webhook_id>/secret", webhooks.secret, name="webhook-secret"),
    path("webhooks/<str:webhook_id>/again", webhooks.again, name="send-again"),
    path("webhooks/<str:webhook_id>/skip", webhooks.skip, name="skip-events"),
    path("webhooks/<str:webhook_id>/remove", webhooks.remove, name="remove-webhook"),
    path(f"client/{FILE}", client_wheel, name="client"),
    path("activity", activity.activity, name="activity"),
    path("activity.csv", activity.export, name="activity-csv"),
    path("activity/stream", activity.desk_hints, name="stream"),
    path("activity/<str:event_id>", activity.one_event, name="event"),
]
