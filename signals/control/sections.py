"""What the pages of other rows show of the log: who created and ended them, and what they sent."""

from desks.models import Card, User
from events.control.links import add_related, add_section
from events.models import Event
from signals.control.enrolment import tell_enrolment
from signals.control.stories import tell_acts, tell_signals
from tokens.models import SigningSecret, Token

add_section(Card, "Desks that came back", tell_enrolment)
for model in (Card, Token, SigningSecret, User):
    add_section(model, "Who did it", tell_acts)


for credential in (Token, SigningSecret):
    add_section(credential, "Its latest signals and refusals", tell_signals)
    add_related(credential, "events", Event)
