"""The runner of webhooks: a webhook is a cursor, and a session moves it."""
