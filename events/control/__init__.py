"""Base classes for the pages of the control area.

Rows are read-only, because every change must be an event in the log. Each action of staff has its
own page, which states the consequences first.
"""
