from django.urls import path

from signals.api.views import DeployView

urlpatterns = [path("desks/<userId:user_id>/signal", DeployView.as_view(), name="deploy")]
