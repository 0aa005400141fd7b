"""Prompts and fixed answers, besides the tasks' own texts. Standard library only."""

from __future__ import annotations

FUNCTION_CALLS = """\
Call functions natively, or write for each call
<tool_call>
{"name": "<function>", "arguments": {...}}
</tool_call>
A message may hold several calls; they run in order."""

TURNS = """\
You help a user by calling functions. The user speaks in turns. Within a turn, call functions, and see their \
results, until you have done what was asked as well as you can; then write a message without a call, which \
ends the turn. When no function fits, or a value that a function needs was not given, call nothing and say \
what is missing."""

ONE_ANSWER = """\
You are given a request and functions. Answer with the calls that the request needs, all of them in one \
message: they are recorded, not run, and there is no second message. When no function fits, or a value that \
a function needs was not given, call nothing and say so."""

MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
"""The package's own words for the turn in which held-back functions are given."""

NEW_FUNCTIONS = "These functions are new:"

COMPLETED = "[CONVERSATION_COMPLETED]"

NOT_RUN = "Recorded."
