"""The baselines: a bare view with one INSERT by the ORM, an empty view, a ModelSerializer's list.

Without middleware, callers, limits or rules; on the same database, gunicorn and configuration.
"""

import json
from typing import Any

from django.db import models
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from rest_framework import serializers
from rest_framework.generics import ListAPIView

from desks.models import Connection, Desk, Election


class Row(models.Model):
    """The row that the bare view stores. The benchmark creates its table."""

    nonce = models.CharField(max_length=128)
    pair = models.CharField(max_length=41)
    direction = models.CharField(max_length=5)

    class Meta:
        app_label = "bench"

    def __str__(self) -> str:
        return self.nonce


def empty(request: HttpRequest) -> HttpResponse:
    """Does nothing: what remains is gunicorn and Django's handler."""
    return HttpResponse()


def insert(request: HttpRequest) -> JsonResponse:
    """The baseline of a signal: one INSERT."""
    body = json.loads(request.body)
    row = Row._default_manager.create(
        nonce=body["nonce"], pair=body["pair"], direction=body["direction"]
    )
    return JsonResponse({"id": row.pk})


class ConnectionSerializer(serializers.ModelSerializer[Connection]):
    connectedAt = serializers.DateTimeField(source="connected_at")
    access = serializers.CharField()

    class Meta:
        model = Connection
        fields = ["venue", "access", "connectedAt"]


class ElectionSerializer(serializers.ModelSerializer[Election]):
    card = serializers.CharField(source="card.name")
    electedAt = serializers.DateTimeField(source="elected_at")

    class Meta:
        model = Election
        fields = ["card", "pair", "direction", "electedAt"]


class DeskSerializer(serializers.ModelSerializer[Desk]):
    """The same fields as the service's own list."""

    userId = serializers.CharField(source="public_id")
    paper = serializers.SerializerMethodField()
    liveWrites = serializers.SerializerMethodField()
    connected = serializers.SerializerMethodField()
    ready = serializers.SerializerMethodField()
    connection = ConnectionSerializer()
    election = ElectionSerializer(source="standing_elections.0", default=None)
    createdAt = serializers.DateTimeField(source="created_at")
    updatedAt = serializers.DateTimeField(source="updated_at")

    class Meta:
        model = Desk
        fields = [
            "userId",
            "paper",
            "liveWrites",
            "connected",
            "ready",
            "connection",
            "election",
            "createdAt",
            "updatedAt",
        ]

    def get_paper(self, desk: Desk) -> bool:
        return True

    def get_liveWrites(self, desk: Desk) -> bool:  # noqa: N802 - the name of the JSON member
        return False

    def get_connected(self, desk: Desk) -> bool:
        return hasattr(desk, "connection")

    def get_ready(self, desk: Desk) -> bool:
        return bool(desk.standing_elections)  # type: ignore[attr-defined]


class DeskList(ListAPIView[Any]):
    """A page of a thousand desks after a key."""

    serializer_class = DeskSerializer

    def get_queryset(self) -> Any:
        standing = Election.objects.standing().filter(card__isnull=False).select_related("card")
        return (
            Desk.objects.select_related("connection")
            .prefetch_related(
                models.Prefetch("elections", queryset=standing, to_attr="standing_elections")
            )
            .filter(pk__gt=self.request.GET.get("after", 0))
            .order_by("pk")[:1000]
        )


urlpatterns = [
    path("readyz", empty),
    path("", empty, name="home"),  # config.wsgi asks for it
    path("empty", empty),
    path("insert", insert),
    path("desks", DeskList.as_view()),
]
