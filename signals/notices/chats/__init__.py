"""Notices in chats: which chats there are, their forms of a message, and how they are sent."""
