"""What the control area's pages have in common, and its pages of the log.

Every list and every row is there to be read: the log is the record, and what stands in it does not
change. What staff may do has a page of its own, which says what will happen before it does it.
"""

from events.control.lists import NOTHING, Narrowing, Rows
from events.control.log import EventControl
from events.control.pages import FormPage, ReadOnly, Tool

__all__ = ["NOTHING", "EventControl", "FormPage", "Narrowing", "ReadOnly", "Rows", "Tool"]
