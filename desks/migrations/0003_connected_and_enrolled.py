from django.db import migrations
from django.db.models import OuterRef, Subquery


def say_again(apps, schema_editor):
    """What connections and elections say of each desk."""
    Desk, Election = apps.get_model("desks", "Desk"), apps.get_model("desks", "Election")
    on_card = Election.objects.filter(desk=OuterRef("pk"), card__isnull=False, closed=None)
    newest = Subquery(on_card.order_by("-opened").values("card")[:1])
    Desk.objects.filter(connection__isnull=False).update(connected=True, enrolled=newest)


class Migration(migrations.Migration):

    dependencies = [("desks", "0002_growth")]

    operations = [migrations.RunPython(say_again, migrations.RunPython.noop)]
