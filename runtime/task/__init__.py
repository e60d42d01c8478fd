"""What one subtask does: mailbox, input, alignment, exchange."""
