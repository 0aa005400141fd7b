"""Scenarios in Phone, Venmo and Splitwise."""

from __future__ import annotations

from .scenario import Check, Scenario, tokens

__all__ = ["SCENARIOS"]

_SENT = "added, updated, removed = models.changed_records('phone.GlobalTextMessage')\n"
_PAID = "added, updated, removed = models.changed_records('venmo.Transaction')\n"
_ASKED = "added, updated, removed = models.changed_records('venmo.PaymentRequest')\n"
_EMAIL = "email_of = {each.id: each.email for each in models.end.venmo.User.all()}\n"

_TEXT = Scenario(
    name="own06",
    difficulty=1,
    apps=("phone",),
    instruction="Send my {relationship} this text message: {message}",
    variants=(
        {"relationship": "manager", "message": "I am late, sorry.", "number": "5550100005"},
        {"relationship": "sister", "message": "See you on Friday!", "number": "5550100007"},
    ),
    solution=tokens("phone")
    + """
[contact] = apis.phone.search_contacts(relationship=$relationship, access_token=phone_token)
print(contact)
----
apis.phone.send_text_message(phone_number=contact['phone_number'], message=$message, access_token=phone_token)
apis.supervisor.complete_task()
""",
    changes=("phone.GlobalTextMessage", "phone.UserTextMessage"),
    checks=(
        Check(
            "one message with those words is sent",
            _SENT
            + "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            + "test.case([each.message for each in added], '==', [expected['message']])",
        ),
        Check(
            "it is sent to the right person",
            _SENT
            + "numbers = {each.id: each.phone_number for each in models.end.phone.User.all()}\n"
            + "test.case([numbers[each.receiver_id] for each in added], '==', [expected['number']])",
        ),
    ),
)
_BIRTHDAY = Scenario(
    name="own07",
    difficulty=1,
    apps=("phone",),
    instruction="On which date does my {relationship} have a birthday? Answer with month and day, as MM-DD.",
    variants=(
        {"relationship": "father", "answer": "04-17"},
        {"relationship": "partner", "answer": "11-02"},
    ),
    solution=tokens("phone")
    + """
[contact] = apis.phone.search_contacts(relationship=$relationship, access_token=phone_token)
apis.supervisor.complete_task(answer=str(contact['birthday'])[5:10])
""",
)
_ALARM = Scenario(
    name="own08",
    difficulty=1,
    apps=("phone",),
    instruction="Move my '{label}' alarm to {time} and set its snooze time to {snooze} minutes.",
    variants=(
        {"label": "Run", "time": "06:15", "snooze": 10},
        {"label": "Work", "time": "07:45", "snooze": 0},
    ),
    solution=tokens("phone")
    + """
alarms = apis.phone.show_alarms(access_token=phone_token)
[alarm] = [each for each in alarms if each['label'] == $label]
apis.phone.update_alarm(alarm_id=alarm['alarm_id'], time=$time, snooze_minutes=$snooze, access_token=phone_token)
apis.supervisor.complete_task()
""",
    changes=("phone.Alarm",),
    checks=(
        Check(
            "only that alarm is changed",
            "added, updated, removed = models.changed_records('phone.Alarm')\n"
            "test.case(([each.label for each in updated], len(added), len(removed)), '==', ([expected['label']], 0, 0))",
        ),
        Check(
            "it has the new times and is on",
            "updated = models.changed_records('phone.Alarm')[1]\n"
            "found = [(each.time, each.snooze_minutes, each.enabled) for each in updated]\n"
            "test.case(found, '==', [(expected['time'], expected['snooze'], True)])",
        ),
    ),
)
_PAY = Scenario(
    name="own09",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction="Pay my {relationship} ${amount} on Venmo with the description '{what}'. It is private.",
    variants=(
        {"relationship": "sister", "amount": 35, "what": "gift for father", "email": "ilse.holt@example.com"},
        {"relationship": "coworker", "amount": 12, "what": "train", "email": "lena.okafor@example.com"},
    ),
    solution=tokens("phone", "venmo")
    + """
[contact] = apis.phone.search_contacts(relationship=$relationship, access_token=phone_token)
apis.venmo.create_transaction(
    receiver_email=contact['email'], amount=$amount, description=$what, private=True, access_token=venmo_token
)
apis.supervisor.complete_task()
""",
    changes=("venmo.Transaction", "venmo.User", "venmo.Notification"),
    checks=(
        Check(
            "one payment of that amount is made",
            _PAID
            + "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            + "test.case([each.amount for each in added], '==', [expected['amount']])",
        ),
        Check(
            "it goes to the right person",
            _PAID
            + _EMAIL
            + "test.case([email_of[each.receiver_id] for each in added], '==', [expected['email']])",
        ),
        Check(
            "it is private and has that description",
            _PAID
            + "test.case([(each.description, each.private) for each in added], '==', [(expected['what'], True)])",
        ),
    ),
)
_SUM = Scenario(
    name="own10",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction="How many dollars have I sent to {friend} on Venmo since the {since}, in total?",
    variants=(
        {"friend": "Ana", "since": "1st of January 2023", "from": "2023-01-01", "answer": 43.5},
        {"friend": "Teo", "since": "1st of April 2023", "from": "2023-04-01", "answer": 55.5},
    ),
    solution=tokens("phone", "venmo")
    + """
contacts = apis.phone.search_contacts(query=$friend, access_token=phone_token)
[contact] = [each for each in contacts if each['first_name'] == $friend]
total, page = 0, 0
while payments := apis.venmo.show_transactions(
    user_email=contact['email'], min_created_at=$from, direction='sent', page_index=page, access_token=venmo_token
):
    total, page = total + sum(each['amount'] for each in payments), page + 1
apis.supervisor.complete_task(answer=total)
""",
)
_REQUESTS = Scenario(
    name="own11",
    difficulty=2,
    apps=("phone", "venmo"),
    instruction="Approve all pending Venmo payment requests to me that are below ${limit}, and deny the others.",
    variants=(
        {"limit": 20, "approved": [8.5, 16.0], "denied": [45.0, 120.0]},
        {"limit": 50, "approved": [8.5, 16.0, 45.0], "denied": [120.0]},
    ),
    solution=tokens("venmo")
    + """
requests = apis.venmo.show_received_payment_requests(status='pending', page_limit=20, access_token=venmo_token)
print(requests)
----
for each in requests:
    decide = apis.venmo.approve_payment_request if each['amount'] < $limit else apis.venmo.deny_payment_request
    decide(payment_request_id=each['payment_request_id'], access_token=venmo_token)
apis.supervisor.complete_task()
""",
    changes=("venmo.PaymentRequest", "venmo.Transaction", "venmo.User", "venmo.Notification"),
    checks=(
        Check(
            "the small requests are approved",
            _ASKED
            + "test.case(sorted(each.amount for each in updated if each.approved_at), '==', expected['approved'])",
        ),
        Check(
            "the large ones are denied",
            _ASKED
            + "test.case(sorted(each.amount for each in updated if each.denied_at), '==', expected['denied'])",
        ),
        Check(
            "exactly the approved ones are paid",
            _PAID + "test.case(sorted(each.amount for each in added), '==', expected['approved'])",
        ),
    ),
)
_SPLIT = Scenario(
    name="own12",
    difficulty=3,
    apps=("splitwise",),
    instruction="I paid ${amount} for '{what}'. Record it as an expense in my Splitwise group '{group}', shared equally "
    "by all members including me.",
    variants=(
        {"amount": 60, "what": "vacuum cleaner", "group": "Flat", "members": 3},
        {"amount": 90, "what": "boat hire", "group": "Lake trip", "members": 3},
    ),
    solution=tokens("splitwise")
    + """
groups = apis.splitwise.show_groups(access_token=splitwise_token)
[group] = [each for each in groups if each['name'] == $group]
details = apis.splitwise.show_group(group_id=group['group_id'], access_token=splitwise_token)
print(details)
----
emails = [each['email'] for each in details['members']]
apis.splitwise.record_expense(
    description=$what, paid_amount=$amount, payer_email=me['email'], debtor_emails=emails,
    debt_amounts=[$amount / len(emails)] * len(emails), group_id=group['group_id'], access_token=splitwise_token
)
apis.supervisor.complete_task()
""",
    changes=("splitwise.Expense", "splitwise.ExpenseShare", "splitwise.Notification"),
    checks=(
        Check(
            "one expense of that amount is recorded",
            "added, updated, removed = models.changed_records('splitwise.Expense')\n"
            "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            "found = [(each.description, each.amount) for each in added]\n"
            "test.case(found, '==', [(expected['what'], expected['amount'])])",
        ),
        Check(
            "it is in the right group and paid by me",
            "[added] = models.changed_records('splitwise.Expense')[0]\n"
            "group = models.end.splitwise.Group.find_one(name=expected['group'])\n"
            "payer = models.end.splitwise.User.find_one(email=main_user.email)\n"
            "test.case((added.group_id, added.payer_id), '==', (group.id, payer.id))",
        ),
        Check(
            "all members bear the same share",
            "shares = models.changed_records('splitwise.ExpenseShare')[0]\n"
            "amounts = [round(each.share_amount, 2) for each in shares]\n"
            "share = expected['amount'] / expected['members']\n"
            "test.case(set(amounts), '==', {share})\n"
            "test.case(len({each.debtor_id for each in shares}) - expected['members'] in (0, -1), '==', True)",
        ),
    ),
)
SCENARIOS = (_TEXT, _BIRTHDAY, _ALARM, _PAY, _SUM, _REQUESTS, _SPLIT)
