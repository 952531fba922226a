from django.urls import path

from signals.api.bots import BotsView
from signals.api.subscriptions import urls as subscriptions
from signals.api.views import CheckView, DeployView, HookView, SignalViewSet

urlpatterns = [
    *subscriptions.urlpatterns,
    path("v1/desks/<userId:user_id>/signal", DeployView.as_view(), name="deploy"),
    path("v1/bots", BotsView.as_view(), name="own-bots"),
    path("v1/signals", SignalViewSet.as_view({"get": "find"}), name="signals"),
    path(
        "v1/signals/<signalId:signal_id>",
        SignalViewSet.as_view({"get": "retrieve"}),
        name="signal-record",
    ),
    path("hooks/signal", HookView.as_view(), name="hook"),
    path("hooks/check", CheckView.as_view(), name="check-signal"),
]
