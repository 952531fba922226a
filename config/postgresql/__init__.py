"""The database backend of the service on PostgreSQL."""
