from django.urls import path

from signals.api.subscriptions.views import RewindView, SecretView, SubscriptionViewSet, TestView

ONE = "v1/subscriptions/<subscriptionId:subscription_id>"

urlpatterns = [
    path(
        "v1/subscriptions",
        SubscriptionViewSet.as_view({"get": "list", "post": "create"}),
        name="subscriptions",
    ),
    path(
        ONE,
        SubscriptionViewSet.as_view({"get": "retrieve", "patch": "change", "delete": "remove"}),
        name="subscription",
    ),
    path(f"{ONE}/secret", SecretView.as_view({"post": "create"}), name="subscription-secret"),
    path(f"{ONE}/test", TestView.as_view({"post": "create"}), name="subscription-test"),
    path(f"{ONE}/rewind", RewindView.as_view({"post": "create"}), name="subscription-rewind"),
]
