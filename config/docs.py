"""The API for machines, and the same for people to read and try."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from config.openapi import document
from desks.pages import page
from events.api.base import Answer, ApiView
from signals.api.views import PUBLIC


class SchemaView(ApiView):
    """GET /api/schema: the whole API as OpenAPI 3.1. Public."""

    authentication_classes = []
    permission_classes = []

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Answer:
        return Answer(document(), headers=PUBLIC)


@page("GET")
def docs(request: HttpRequest) -> HttpResponse:
    """GET /api/docs: the schema, to be read and tried in a browser."""
    return render(request, "drf_spectacular/docs.html")
