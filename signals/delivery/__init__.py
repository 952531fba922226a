"""Delivers events and notices to the endpoints of others: a guarded HTTP client and its runner."""
