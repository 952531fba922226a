"""The daily digest: what happened on a desk since the last one, as one notice."""
