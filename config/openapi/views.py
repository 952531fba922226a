"""The OpenAPI document, and a page to read and try it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from config.openapi.generator import Document, document
from events.http.api_view import ApiResponse, ApiView
from events.http.pages import page
from signals.intake.api import PUBLIC


class SchemaView(ApiView):
    """GET /api/schema: the whole API as OpenAPI 3.1. Public."""

    authentication_classes = []
    permission_classes = []

    @extend_schema(exclude=True)
    def get(self, request: Request) -> ApiResponse[Document]:
        return ApiResponse(document(), headers=PUBLIC)


@page("GET")
def docs(request: HttpRequest) -> HttpResponse:
    """GET /api/docs: a page to read and try the API."""
    return render(request, "drf_spectacular/docs.html")
