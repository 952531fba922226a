"""The runner of subscriptions: a subscription is a cursor, and a flight moves it."""
