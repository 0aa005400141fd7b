"""What our people have in their apps before any task, made through the apps' own APIs."""

from __future__ import annotations

import datetime
from typing import Any

from .people import ME, PEOPLE, Person, person

__all__ = ["NOW", "User", "add_content"]

NOW = datetime.datetime(2023, 5, 18, 12, 0)
"""The present of all tasks."""

_NOTES = (
    ("Shopping list", "eggs\nmilk\nflour", ["home"]),
    ("Movies to see", "Solaris\nPlaytime\nRan\nStalker", ["fun"]),
    ("Packing for the lake", "tent\nlamp\nrope", ["travel", "home"]),
    ("Soup with lentils", "lentils\ncarrots\ncumin\nstock", ["recipe"]),
    ("Bread without kneading", "flour\nwater\nsalt\nyeast", ["recipe"]),
    ("Plum cake", "plums\nflour\nbutter\nsugar", ["recipe", "fun"]),
    ("Rice salad", "rice\npeas\nlemon", ["recipe"]),
    ("Onion tart", "onions\ncream\nflour", ["recipe"]),
    ("Fish stew", "cod\ntomatoes\nsaffron", ["recipe"]),
    ("Pear jam", "pears\nsugar", ["recipe"]),
    ("Meter readings", "2023-03: 4100\n2023-04: 4262\n2023-05: 4391", ["home"]),
)
_TASKS = {
    "Kitchen": (
        ("Fix the tap", "high", False),
        ("Paint the door", "low", False),
        ("Order a lamp", "high", False),
        ("Sharpen the knives", "medium", True),
        ("Clean the hood", "high", False),
    ),
    "Garden": (
        ("Cut the hedge", "medium", False),
        ("Repair the fence", "high", False),
        ("Sow beans", "low", True),
        ("Buy soil", "low", False),
    ),
    "Taxes": (("Find the receipts", "high", False), ("Ask about the deadline", "medium", False)),
}
_ALARMS = (("06:45", "Run"), ("07:30", "Work"), ("22:15", "Bed"))
_FILES = {
    "/downloads/bill_march.pdf": "power 61.20",
    "/downloads/bill_april.pdf": "power 58.75",
    "/downloads/photo_lake.jpg": "a lake",
    "/downloads/photo_cat.jpg": "a cat",
    "/downloads/notes.txt": "call the bank",
    "/documents/cv.txt": "Mira Holt",
    "/documents/letters/landlord.txt": "Dear Sir",
    "/bills/bill_january.pdf": "power 70.10",
    "/photos/trip/harbour.jpg": "a harbour",
}
_PAYMENTS = (
    # who pays whom, how much, for what, days ago
    ("Mira", "Ana", 31.0, "groceries", 3),
    ("Mira", "Ana", 12.5, "taxi", 20),
    ("Mira", "Teo", 40.0, "internet", 8),
    ("Ana", "Mira", 18.0, "pizza", 6),
    ("Mira", "Ana", 25.0, "tickets", 170),
    ("Teo", "Mira", 22.0, "cleaning", 2),
    ("Mira", "Lena", 9.0, "coffee", 5),
    ("Mira", "Teo", 15.5, "lamp", 30),
    ("Mira", "Lena", 14.0, "lunch", 12),
)
_REQUESTS = (
    ("Ana", "Mira", 16.0, "dinner on Friday"),
    ("Teo", "Mira", 45.0, "electricity"),
    ("Lena", "Mira", 120.0, "concert"),
    ("Jonas", "Mira", 8.5, "bread"),
)
_ARTISTS = (("Nora Vale", "folk"), ("The Tin Harbour", "rock"), ("Okto", "electronic"))
_SONGS = (
    # title, artist, genre, plays, seconds
    ("Salt Road", 0, "folk", 420, 201),
    ("Winter Bees", 0, "folk", 930, 188),
    ("Low Tide", 0, "folk", 150, 240),
    ("Engine Room", 1, "rock", 2210, 215),
    ("Copper Sky", 1, "rock", 1340, 199),
    ("Half a Mile", 1, "rock", 610, 260),
    ("Grid", 2, "electronic", 3050, 300),
    ("Parallel", 2, "electronic", 2875, 280),
    ("Soft Reset", 2, "electronic", 75, 330),
)
_LIBRARY = ("Salt Road", "Winter Bees", "Engine Room", "Copper Sky", "Half a Mile", "Grid", "Soft Reset")
_MAIL = (
    # from, to, subject, body, days ago
    ("Ravi", "Mira", "Budget for June", "Please send me your numbers by Monday.", 2),
    ("Ravi", "Mira", "Team lunch", "Thursday at noon, who is in?", 4),
    ("Lena", "Mira", "Slides", "The slides are ready for a look.", 1),
    ("Lena", "Mira", "Bike ride", "Sunday, if the weather holds?", 3),
    ("Ilse", "Mira", "Birthday plans", "I thought of a small dinner.", 6),
    ("Paul", "Mira", "Garden chairs", "Do you want the old ones?", 9),
    ("Mira", "Jonas", "Weekend", "Shall we go to the lake?", 5),
)
_PRODUCTS = (
    # name, type, price, rating
    ("Kettle Arden", "kettle", 34.0, 4.4),
    ("Kettle Brook", "kettle", 27.5, 4.1),
    ("Kettle Calder", "kettle", 52.0, 4.8),
    ("Kettle Dale", "kettle", 21.0, 3.2),
    ("Desk lamp Fern", "lamp", 45.0, 4.0),
    ("Desk lamp Gorse", "lamp", 39.9, 4.6),
    ("Floor lamp Heath", "lamp", 89.0, 4.7),
    ("Rain coat Ibis", "coat", 75.0, 4.3),
)


class User:
    """Acts as one person, at a time of choice."""

    def __init__(self, apis: Any, who: Person) -> None:  # noqa: ANN401
        self._apis = apis
        self._who = who

    def __call__(self, app: str, api: str, days_ago: int = 30, **arguments: Any) -> Any:  # noqa: ANN401
        moment = NOW - datetime.timedelta(days=days_ago)
        name = self._who.phone_number if app == "phone" else self._who.email
        login = {"username": name, "password": self._who.password(app)}
        token = self._apis[app].login(_system_datetime=moment, **login)["access_token"]
        return self._apis[app][api](_system_datetime=moment, access_token=token, **arguments)


def add_content(apis: Any, models: Any) -> None:  # noqa: ANN401
    """Fill the apps."""
    me = User(apis, ME)
    for title, content, tags in _NOTES:
        me("simple_note", "create_note", title=title, content=content, tags=tags)
    _add_todos(me)
    _add_phone(apis, me)
    for path, content in _FILES.items():
        directory = path.rpartition("/")[0]
        if not me("file_system", "directory_exists", directory_path=f"~{directory}")["exists"]:
            me("file_system", "create_directory", directory_path=f"~{directory}", recursive=True)
        me("file_system", "create_file", file_path=f"~{path}", content=content)
    for payer, receiver, amount, what, days_ago in _PAYMENTS:
        User(apis, person(payer))(
            "venmo",
            "create_transaction",
            days_ago,
            receiver_email=person(receiver).email,
            amount=amount,
            description=what,
        )
    for asker, asked, amount, what in _REQUESTS:
        User(apis, person(asker))(
            "venmo",
            "create_payment_request",
            1,
            user_email=person(asked).email,
            amount=amount,
            description=what,
        )
    _add_music(me, models)
    for sender, receiver, subject, body, days_ago in _MAIL:
        addresses = [person(receiver).email]
        User(apis, person(sender))(
            "gmail", "send_email", days_ago, email_addresses=addresses, subject=subject, body=body
        )
    members = [person(name).email for name in ("Ana", "Teo")]
    me("splitwise", "create_group", name="Flat", member_emails=members)
    me(
        "splitwise",
        "create_group",
        name="Lake trip",
        member_emails=[person("Lena").email, person("Ana").email],
    )
    _add_shop(models)


def _add_todos(me: User) -> None:
    for name, tasks in _TASKS.items():
        project = me("todoist", "create_project", name=name)["project_id"]
        for title, priority, done in tasks:
            task = me("todoist", "create_task", project_id=project, title=title, priority=priority)["task_id"]
            if done:
                me("todoist", "update_task", task_id=task, is_completed=True)


def _add_phone(apis: Any, me: User) -> None:  # noqa: ANN401
    for each in PEOPLE[1:]:
        me(
            "phone",
            "add_contact",
            first_name=each.first_name,
            last_name=each.last_name,
            phone_number=each.phone_number,
            email=each.email,
            relationships=list(each.relationships),
            birthday=each.birthday,
        )
    for time, label in _ALARMS:
        me("phone", "create_alarm", time=time, label=label, snooze_minutes=5)
    words = {"Jonas": "The key is under the pot.", "Ana": "The parcel number is 7741.", "Teo": "Rent is due."}
    for name, text in words.items():
        writer = User(apis, person(name))
        writer("phone", "send_text_message", 2, phone_number=ME.phone_number, message=text)


def _add_music(me: User, models: Any) -> None:  # noqa: ANN401
    artists = [models.spotify.Artist(name=name, genre=genre) for name, genre in _ARTISTS]
    for artist in artists:
        artist.save()
    songs = {}
    for number, (title, artist, genre, plays, seconds) in enumerate(_SONGS):
        song = models.spotify.Song(
            title=title,
            artist_ids=[artists[artist].id],
            duration=seconds,
            release_date=datetime.datetime(2015 + number % 7, 1 + number, 3),
            genre=genre,
            play_count=plays,
        )
        song.save()
        songs[title] = song.id
    for title in _LIBRARY:
        me("spotify", "add_song_to_library", song_id=songs[title])
    playlist = me("spotify", "create_playlist", title="Morning")["playlist_id"]
    for title in ("Salt Road", "Copper Sky", "Grid"):
        me("spotify", "add_song_to_playlist", playlist_id=playlist, song_id=songs[title])
    me("spotify", "create_playlist", title="Evening")


def _add_shop(models: Any) -> None:  # noqa: ANN401
    seller = models.amazon.Seller(name="Hill and Dale", rating=4.5)
    seller.save()
    for name, kind, price, rating in _PRODUCTS:
        models.amazon.Product(
            product_type=kind,
            name=name,
            description=f"A {kind}.",
            seller_id=seller.id,
            price=price,
            delivery_days=3,
            inventory_quantity=20,
            weight=1.0,
            length=10.0,
            width=10.0,
            height=10.0,
            rating=rating,
            seller_rating=4.5,
        ).save()
