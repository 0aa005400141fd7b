"""Scenarios in Simple Note and Todoist."""

from __future__ import annotations

from .scenario import Check, Scenario, tokens

__all__ = ["SCENARIOS"]

_NOTE = "added, updated, removed = models.changed_records('simple_note.Note')\n"
_TASK = "added, updated, removed = models.changed_records('todoist.Task')\n"

_APPEND = Scenario(
    name="own01",
    difficulty=1,
    apps=("simple_note",),
    instruction="Add '{item}' as a new last line to my note '{title}' in Simple Note, and tell me how many lines it has then.",
    variants=(
        {"title": "Shopping list", "item": "butter", "answer": 4},
        {"title": "Movies to see", "item": "Paris, Texas", "answer": 5},
    ),
    solution=tokens("simple_note")
    + """
found = apis.simple_note.search_notes(query=$title, access_token=simple_note_token)
print(found)
----
note = apis.simple_note.show_note(note_id=found[0]['note_id'], access_token=simple_note_token)
lines = note['content'].splitlines() + [$item]
apis.simple_note.update_note(note_id=note['note_id'], content='\\n'.join(lines), access_token=simple_note_token)
apis.supervisor.complete_task(answer=len(lines))
""",
    changes=("simple_note.Note",),
    checks=(
        Check(
            "exactly one note is changed",
            _NOTE + "test.case((len(added), len(updated), len(removed)), '==', (0, 1, 0))",
        ),
        Check(
            "the note has the new line at its end and the old ones before it",
            _NOTE
            + "[before] = models.changed_records('simple_note.Note', updated_state='start')[1]\n"
            + "test.case(updated[0].title, '==', expected['title'])\n"
            + "test.case(updated[0].content.strip(), '==', before.content.strip() + '\\n' + expected['item'])",
        ),
    ),
)
_COUNT = Scenario(
    name="own02",
    difficulty=1,
    apps=("simple_note",),
    instruction="How many of my notes in Simple Note have the tag '{tag}'?",
    variants=({"tag": "recipe", "answer": 7}, {"tag": "home", "answer": 3}),
    solution=tokens("simple_note")
    + """
count, page = 0, 0
while notes := apis.simple_note.search_notes(tags=[$tag], page_index=page, access_token=simple_note_token):
    count, page = count + sum($tag in note['tags'] for note in notes), page + 1
apis.supervisor.complete_task(answer=count)
""",
)
_TICK = Scenario(
    name="own03",
    difficulty=1,
    apps=("todoist",),
    instruction="Mark all open tasks of {priority} priority in my Todoist project '{project}' as completed.",
    variants=(
        {
            "project": "Kitchen",
            "priority": "high",
            "titles": ["Clean the hood", "Fix the tap", "Order a lamp"],
        },
        {"project": "Garden", "priority": "low", "titles": ["Buy soil"]},
    ),
    solution=tokens("todoist")
    + """
projects = apis.todoist.show_projects(page_limit=20, access_token=todoist_token)
[project] = [each for each in projects if each['name'] == $project]
shown = apis.todoist.show_tasks(project_id=project['project_id'], access_token=todoist_token)
print(shown)
----
for task in shown['no_section_tasks']:
    if task['priority'] == $priority and not task['is_completed']:
        apis.todoist.update_task(task_id=task['task_id'], is_completed=True, access_token=todoist_token)
apis.supervisor.complete_task()
""",
    changes=("todoist.Task", "todoist.Notification"),
    checks=(
        Check(
            "the right tasks are changed, and no others",
            _TASK
            + "test.case((len(added), len(removed)), '==', (0, 0))\n"
            + "test.case(sorted(each.title for each in updated), '==', expected['titles'])",
        ),
        Check(
            "they are completed, and nothing else about them is changed",
            _TASK
            + "test.case(len(updated), '==', len(expected['titles']))\n"
            + "for each in updated:\n"
            + "    test.case(models.changed_field_names('todoist.Task', each.id), '==', {'is_completed'})",
        ),
    ),
)
_FROM_NOTE = Scenario(
    name="own04",
    difficulty=2,
    apps=("simple_note", "todoist"),
    instruction="Make a new Todoist project named '{project}' with one task for each line of my note '{title}' in "
    "Simple Note, in the order of the note, all of {priority} priority.",
    variants=(
        {
            "project": "Lake",
            "title": "Packing for the lake",
            "priority": "high",
            "lines": ["tent", "lamp", "rope"],
        },
        {
            "project": "Cinema",
            "title": "Movies to see",
            "priority": "low",
            "lines": ["Solaris", "Playtime", "Ran", "Stalker"],
        },
    ),
    solution=tokens("simple_note", "todoist")
    + """
notes = apis.simple_note.search_notes(query=$title, access_token=simple_note_token)
[found] = [each for each in notes if each['title'] == $title]
note = apis.simple_note.show_note(note_id=found['note_id'], access_token=simple_note_token)
print(note)
----
project = apis.todoist.create_project(name=$project, access_token=todoist_token)['project_id']
for line in note['content'].splitlines():
    apis.todoist.create_task(project_id=project, title=line, priority=$priority, access_token=todoist_token)
apis.supervisor.complete_task()
""",
    changes=("todoist.Project", "todoist.ProjectCollaboratorLink", "todoist.Task"),
    checks=(
        Check(
            "one project of that name is made",
            "added, updated, removed = models.changed_records('todoist.Project')\n"
            "test.case(([each.name for each in added], len(updated), len(removed)), '==', ([expected['project']], 0, 0))",
        ),
        Check(
            "it has a task for each line, in order",
            _TASK
            + "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            + "ordered = sorted(added, key=lambda each: each.order_index)\n"
            + "test.case([each.title for each in ordered], '==', expected['lines'])",
        ),
        Check(
            "the tasks are in that project and of that priority",
            _TASK
            + "[project] = models.changed_records('todoist.Project')[0]\n"
            + "test.case(len(added), '==', len(expected['lines']))\n"
            + "for each in added:\n"
            + "    test.case((each.project_id, each.priority), '==', (project.id, expected['priority']))",
        ),
    ),
)
_PIN = Scenario(
    name="own05",
    difficulty=1,
    apps=("simple_note",),
    instruction="Delete my note '{gone}' in Simple Note and pin the note '{pinned}'.",
    variants=(
        {"gone": "Pear jam", "pinned": "Plum cake"},
        {"gone": "Onion tart", "pinned": "Meter readings"},
    ),
    solution=tokens("simple_note")
    + """
notes = apis.simple_note.search_notes(page_limit=20, access_token=simple_note_token)
[gone] = [each for each in notes if each['title'] == $gone]
[pinned] = [each for each in notes if each['title'] == $pinned]
apis.simple_note.delete_note(note_id=gone['note_id'], access_token=simple_note_token)
apis.simple_note.update_note(note_id=pinned['note_id'], pinned=True, access_token=simple_note_token)
apis.supervisor.complete_task()
""",
    changes=("simple_note.Note",),
    checks=(
        Check(
            "that note is deleted",
            _NOTE + "test.case([each.title for each in removed], '==', [expected['gone']])",
        ),
        Check(
            "the other is pinned, and no third one is touched",
            _NOTE
            + "test.case([(each.title, each.pinned) for each in updated], '==', [(expected['pinned'], True)])\n"
            + "test.case(len(added), '==', 0)",
        ),
    ),
)
SCENARIOS = (_APPEND, _COUNT, _TICK, _FROM_NOTE, _PIN)
