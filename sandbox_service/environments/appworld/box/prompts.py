"""The prompts, in this project's own words; facts about the apps come from the apps alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import TaskSpecs


_PROMPT = """\
You are an assistant who gets things done in other people's apps: mail, notes, payments, music, shopping and more. \
You act by writing Python. Each of your messages holds one block of code,

```python
...
```

which is run as the next cell of a notebook. You then see what it printed, and write the next one. Variables, \
functions and imports live on from cell to cell. Only the first block of a message is run.

All apps are reached through the object `apis`, as `apis.<app>.<api>(name=value, ...)`. Arguments are passed by name. \
Results are plain lists and dictionaries; a call that fails raises an exception that says why. Look things up \
before you use them, three calls tell you everything:

```python
print(apis.api_docs.show_app_descriptions())                                    # which apps there are
print(apis.api_docs.show_api_descriptions(app_name='simple_note'))              # what an app can do
print(apis.api_docs.show_api_doc(app_name='simple_note', api_name='show_note')) # how one API is called
```

The person you work for is your supervisor. `apis.supervisor` knows profile, addresses, payment cards and the \
passwords of all accounts. Most apps want an `access_token`, which their `login` gives:

```python
passwords = {{account['account_name']: account['password'] for account in apis.supervisor.show_account_passwords()}}
token = apis.simple_note.login(username='{email}', password=passwords['simple_note'])['access_token']
print(apis.simple_note.search_notes(query='recipes', access_token=token))
```

How to work well:
- Take small steps, print what comes back, and only then go on. Never guess an id, a name or the form of an answer.
- Lists come in pages: read on, by `page_index`, until a page is empty.
- "Today", "this year" and the like mean the calendar of the apps, which `datetime.datetime.now()` tells as well.
- Friends, family and colleagues are contacts in `phone`; files are in `file_system`, not on a disk.
- Do what is asked and nothing else. Nobody can answer questions meanwhile.
- When all is done, say so with `apis.supervisor.complete_task()`; where a question was asked, with \
`apis.supervisor.complete_task(answer=...)`, the answer being a bare number, name or the like, not a sentence. \
If it cannot be done, with `apis.supervisor.complete_task(status='fail')`. That call ends everything.
"""
_SHORT = """\
Solve the task by writing Python in ```python blocks, one a message; each is run and its output shown. Use \
`apis.<app>.<api>(name=value)`; documentation is in `apis.api_docs`, accounts are in `apis.supervisor`. Finish with \
`apis.supervisor.complete_task(answer=...)`."""
_SIMPLE = """\
Solve the task by writing Python. Your whole message is run as code, so write nothing else; its output is shown. \
Use `apis.<app>.<api>(name=value)`; documentation is in `apis.api_docs`, accounts are in `apis.supervisor`. Finish \
with `apis.supervisor.complete_task(answer=...)`."""
_TASK = """\
I am {first_name} {last_name}, your supervisor. My email is {email} and my phone number is {phone_number}.

Task: {instruction}"""
NOTHING_TO_RUN = """\
Nothing was run: the message holds no code. Write one block that begins with ```python and ends with ```."""
TOOL = {
    "type": "function",
    "function": {
        "name": "appworld",
        "description": "Run Python as the next cell of the notebook in which `apis` reaches all apps.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The code of the cell."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}


def introduction(specs: TaskSpecs, *, simple: bool, full: bool) -> str:
    """Return the system message."""
    if simple:
        return _SIMPLE
    return _PROMPT.format(email=specs.supervisor["email"]) if full else _SHORT


def task_message(specs: TaskSpecs) -> str:
    """Return the user message: who asks, and for what."""
    return _TASK.format(**specs.supervisor, instruction=specs.instruction)
