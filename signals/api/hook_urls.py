from django.urls import path

from signals.api.views import HookView

urlpatterns = [path("signal", HookView.as_view(), name="hook")]
