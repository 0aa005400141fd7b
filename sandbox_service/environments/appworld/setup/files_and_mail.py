"""Scenarios in File System and Gmail."""

from __future__ import annotations

from .scenario import Check, Scenario, tokens

__all__ = ["SCENARIOS"]

_FILES = "added, updated, removed = models.changed_records('file_system.File')\n"
_MAILS = "added, updated, removed = models.changed_records('gmail.Email')\n"
_THREADS = "added, updated, removed = models.changed_records('gmail.UserEmailThread')\n"

_MOVE = Scenario(
    name="own13",
    difficulty=2,
    apps=("file_system",),
    instruction="Move all .{kind} files from ~/downloads to {target} in my file system. Keep their names.",
    variants=(
        {"kind": "pdf", "target": "~/bills", "names": ["bill_april.pdf", "bill_march.pdf"]},
        {"kind": "jpg", "target": "~/photos/trip", "names": ["photo_cat.jpg", "photo_lake.jpg"]},
    ),
    solution=tokens("file_system")
    + """
paths = apis.file_system.show_directory(
    directory_path='~/downloads', entry_type='files', access_token=file_system_token
)
print(paths)
----
for path in paths:
    if path.endswith('.' + $kind):
        target = $target + '/' + path.split('/')[-1]
        apis.file_system.move_file(
            source_file_path=path, destination_file_path=target, access_token=file_system_token
        )
apis.supervisor.complete_task()
""",
    changes=("file_system.File", "file_system.Directory"),
    checks=(
        Check(
            "the files are in their new place, with their old content",
            "user = models.end.file_system.User.find_one(email=main_user.email)\n"
            "at = {}\n"
            "for name in expected['names']:\n"
            "    [old] = [each for each in models.start.file_system.File.all()\n"
            "             if each.user_id == user.id and each.path.endswith('/downloads/' + name)]\n"
            "    at[old.path.replace('/downloads/', expected['target'][1:] + '/')] = old.content\n"
            "files = {each.path: each.content for each in models.end.file_system.File.all() if each.user_id == user.id}\n"
            "test.case({path: files.get(path) for path in at}, '==', at)",
        ),
        Check(
            "none of them is left in the old one",
            "user = models.end.file_system.User.find_one(email=main_user.email)\n"
            "left = [each.path for each in models.end.file_system.File.all() if each.user_id == user.id\n"
            "        and '/downloads/' in each.path and each.path.endswith('.' + expected['kind'])]\n"
            "test.case(left, '==', [])",
        ),
        Check(
            "no other file is touched",
            _FILES
            + "moved = {each.path.split('/')[-1] for each in [*added, *updated, *removed]}\n"
            + "test.case(moved <= set(expected['names']), '==', True)",
            passes_undone=True,
        ),
    ),
)
_BILLS = Scenario(
    name="own14",
    difficulty=2,
    apps=("file_system",),
    instruction="What do the power bills of {months} add up to? They are PDF files somewhere in my file system.",
    variants=(
        {"months": "March and April", "names": ["march", "april"], "answer": 119.95},
        {"months": "January and March", "names": ["january", "march"], "answer": 131.3},
    ),
    solution=tokens("file_system")
    + """
paths = apis.file_system.show_directory(directory_path='~/', substring='bill_', access_token=file_system_token)
print(paths)
----
total = 0
for path in paths:
    if any(name in path for name in $names):
        content = apis.file_system.show_file(file_path=path, access_token=file_system_token)['content']
        total += float(content.split()[-1])
apis.supervisor.complete_task(answer=round(total, 2))
""",
)
_STAR = Scenario(
    name="own15",
    difficulty=2,
    apps=("gmail", "phone"),
    instruction="Star every mail thread in my Gmail inbox that {name} started, and mark those threads as read.",
    variants=(
        {"name": "Ravi Nair", "subjects": ["Budget for June", "Team lunch"]},
        {"name": "Lena Okafor", "subjects": ["Bike ride", "Slides"]},
    ),
    solution=tokens("gmail", "phone")
    + """
contacts = apis.phone.search_contacts(query=$name, access_token=phone_token)
[contact] = [each for each in contacts if each['first_name'] + ' ' + each['last_name'] == $name]
threads = apis.gmail.show_inbox_threads(from_email=contact['email'], page_limit=20, access_token=gmail_token)
print(threads)
----
for thread in threads:
    apis.gmail.mark_thread_starred(email_thread_id=thread['email_thread_id'], access_token=gmail_token)
    apis.gmail.mark_thread_read(email_thread_id=thread['email_thread_id'], access_token=gmail_token)
apis.supervisor.complete_task()
""",
    changes=("gmail.UserEmailThread",),
    checks=(
        Check(
            "the right threads are starred, and no others",
            _THREADS
            + "subjects = {each.id: each.subject for each in models.end.gmail.Email.all()}\n"
            + "starred = sorted(subjects[each.email_ids[0]] for each in updated if each.starred)\n"
            + "test.case(starred, '==', expected['subjects'])",
        ),
        Check(
            "all of them are read, and nothing else is changed",
            _THREADS
            + "test.case((len(added), len(updated), len(removed)), '==', (0, len(expected['subjects']), 0))\n"
            + "test.case(all(each.read and each.starred for each in updated), '==', True)",
        ),
    ),
)
_SEND = Scenario(
    name="own16",
    difficulty=2,
    apps=("gmail", "simple_note", "phone"),
    instruction="Mail the content of my note '{title}' to my {relationship}. The subject is the note's title, the body "
    "is exactly the note's content.",
    variants=(
        {"title": "Plum cake", "relationship": "sister", "email": "ilse.holt@example.com"},
        {"title": "Fish stew", "relationship": "partner", "email": "jonas.brandt@example.com"},
    ),
    solution=tokens("gmail", "simple_note", "phone")
    + """
[contact] = apis.phone.search_contacts(relationship=$relationship, access_token=phone_token)
notes = apis.simple_note.search_notes(query=$title, access_token=simple_note_token)
[found] = [each for each in notes if each['title'] == $title]
note = apis.simple_note.show_note(note_id=found['note_id'], access_token=simple_note_token)
----
apis.gmail.send_email(
    email_addresses=[contact['email']], subject=note['title'], body=note['content'], access_token=gmail_token
)
apis.supervisor.complete_task()
""",
    changes=("gmail.Email", "gmail.GlobalEmailThread", "gmail.UserEmailThread"),
    checks=(
        Check(
            "one mail is sent, to the right person",
            _MAILS
            + "addresses = {each.id: each.email for each in models.end.gmail.User.all()}\n"
            + "test.case([[addresses[id] for id in each.recipient_ids] for each in added], '==', [[expected['email']]])",
        ),
        Check(
            "it carries the note",
            _MAILS
            + "note = models.start.simple_note.Note.find_one(title=expected['title'])\n"
            + "found = [(each.subject, each.body.strip()) for each in added]\n"
            + "test.case(found, '==', [(note.title, note.content.strip())])",
        ),
    ),
)
SCENARIOS = (_MOVE, _BILLS, _STAR, _SEND)
