"""Tasks: mailbox, input, alignment and exchange of one subtask."""
