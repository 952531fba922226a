from django.urls import path

from signals.api.views import DeployView, HookView

urlpatterns = [
    path("v1/desks/<userId:user_id>/signal", DeployView.as_view(), name="deploy"),
    path("hooks/signal", HookView.as_view(), name="hook"),
]
