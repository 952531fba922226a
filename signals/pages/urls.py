from django.urls import path

from signals.pages import credentials, desk
from signals.pages.activity.export import export
from signals.pages.activity.listing import activity
from signals.pages.activity.one_event import one_event
from signals.pages.bots.changes import elect, remove, withdraw
from signals.pages.bots.check import check
from signals.pages.bots.listing import bots
from signals.pages.bots.overview import overview
from signals.pages.bots.sending import send, tradingview

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
    path("bots/<str:bot_id>/remove", remove, name="remove-bot"),
    path("bots/<str:bot_id>/secret", credentials.generate, name="generate"),
    path("bots/<str:bot_id>/secrets/<str:secret_id>/end", credentials.end, name="end-secret"),
    path("activity", activity, name="activity"),
    path("activity.csv", export, name="activity-csv"),
    path("activity/<str:event_id>", one_event, name="event"),
]
