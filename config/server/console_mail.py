"""Prints mails to the terminal, as their readers see them. The default without a mail server."""

from typing import Any

from django.core.mail.backends import console


class EmailBackend(console.EmailBackend):
    """Prints whom a mail is for, its subject and its text, without the HTML that says the same."""

    def write_message(self, message: Any) -> None:
        lines = (
            f"Mail to {', '.join(message.recipients())}",
            f"Subject: {message.subject}",
            "",
            message.body.rstrip(),
            "-" * 79,
        )
        self.stream.write("\n".join(lines) + "\n")
