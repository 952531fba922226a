"""The migrated database has every constraint and index that the models declare."""

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db

OUR_MODELS = [
    model
    for app in ("desks", "events", "signals", "tokens")
    for model in apps.get_app_config(app).get_models()
]


@pytest.mark.parametrize("model", OUR_MODELS, ids=lambda model: model._meta.label)
def test_each_constraint_and_index_of_a_model_is_in_the_database(model):
    declared = {each.name for each in (*model._meta.constraints, *model._meta.indexes)}
    with connection.cursor() as cursor:
        stored = connection.introspection.get_constraints(cursor, model._meta.db_table)
    assert declared <= stored.keys()
