"""Account pages of our own around allauth's: acts that ask first, and a mail that is sent again."""
