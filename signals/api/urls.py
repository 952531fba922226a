from django.urls import path

from signals.api.views import CheckView, DeployView, HookView

urlpatterns = [
    path("v1/desks/<userId:user_id>/signal", DeployView.as_view(), name="deploy"),
    path("hooks/signal", HookView.as_view(), name="hook"),
    path("hooks/check", CheckView.as_view(), name="check-signal"),
]
