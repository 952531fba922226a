from django.urls import path

from signals.pages import bots, credentials, desk
from signals.pages.activity.export import export
from signals.pages.activity.listing import activity
from signals.pages.activity.one_event import one_event

urlpatterns = [
    path("desk", desk.overview, name="desk"),
    path("desk/connect", desk.connect, name="connect"),
    path("desk/disconnect", desk.disconnect, name="disconnect"),
    path("desk/enrol", desk.enrol, name="enrol"),
    path("desk/withdraw", desk.withdraw, name="withdraw"),
    path("desk/token", credentials.mint, name="mint"),
    path("desk/token/revoke", credentials.revoke, name="revoke"),
    path("desk/end", credentials.end_credentials, name="end-credentials"),
    path("bots", bots.bots, name="bots"),
    path("bots/<str:bot_id>", bots.one_bot, name="bot"),
    path("bots/<str:bot_id>/elect", bots.elect, name="elect"),
    path("bots/<str:bot_id>/withdraw", bots.withdraw_bot, name="withdraw-bot"),
    path("bots/<str:bot_id>/check", bots.check, name="check"),
    path("bots/<str:bot_id>/remove", bots.remove, name="remove-bot"),
    path("bots/<str:bot_id>/secret", credentials.generate, name="generate"),
    path("bots/<str:bot_id>/secrets/<str:secret_id>/end", credentials.end, name="end-secret"),
    path("activity", activity, name="activity"),
    path("activity.csv", export, name="activity-csv"),
    path("activity/<str:event_id>", one_event, name="event"),
]
