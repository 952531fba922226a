"""The runner of subscriptions: a subscription is a cursor, and a session moves it."""
