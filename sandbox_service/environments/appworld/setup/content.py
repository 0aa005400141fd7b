"""Fill the apps of the synthetic users before any task, through the apps' own APIs."""

from __future__ import annotations

import datetime
from typing import Any

from .authored import WORLD
from .people import ME, PEOPLE, Person, person

NOW = datetime.datetime.fromisoformat(WORLD["now"])
"""The present of all tasks."""


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
    for note in WORLD["notes"]:
        me("simple_note", "create_note", **note)
    _add_todos(me)
    _add_phone(apis, me)
    _add_files(me)
    _add_payments(apis)
    _add_music(me, models)
    for mail in WORLD["mail"]:
        User(apis, person(mail["sender"]))(
            "gmail",
            "send_email",
            mail["days_ago"],
            email_addresses=[person(mail["receiver"]).email],
            subject=mail["subject"],
            body=mail["body"],
        )
    for group in WORLD["groups"]:
        members = [person(name).email for name in group["members"]]
        me("splitwise", "create_group", name=group["name"], member_emails=members)
    _add_shop(models)


def _add_todos(me: User) -> None:
    projects: dict[str, int] = {}
    for todo in WORLD["todos"]:
        name, title, priority = todo["project"], todo["title"], todo["priority"]
        if name not in projects:
            projects[name] = me("todoist", "create_project", name=name)["project_id"]
        added = me("todoist", "create_task", project_id=projects[name], title=title, priority=priority)
        if todo["done"]:
            me("todoist", "update_task", task_id=added["task_id"], is_completed=True)


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
    for alarm in WORLD["alarms"]:
        me("phone", "create_alarm", **alarm, snooze_minutes=5)
    for message in WORLD["messages"]:
        sender = User(apis, person(message["sender"]))
        sender("phone", "send_text_message", 2, phone_number=ME.phone_number, message=message["text"])


def _add_files(me: User) -> None:
    for file in WORLD["files"]:
        directory = file["path"].rpartition("/")[0]
        if not me("file_system", "directory_exists", directory_path=f"~{directory}")["exists"]:
            me("file_system", "create_directory", directory_path=f"~{directory}", recursive=True)
        me("file_system", "create_file", file_path=f"~{file['path']}", content=file["content"])


def _add_payments(apis: Any) -> None:  # noqa: ANN401
    for payment in WORLD["payments"]:
        User(apis, person(payment["payer"]))(
            "venmo",
            "create_transaction",
            payment["days_ago"],
            receiver_email=person(payment["receiver"]).email,
            amount=payment["amount"],
            description=payment["what"],
        )
    for request in WORLD["payment_requests"]:
        User(apis, person(request["asker"]))(
            "venmo",
            "create_payment_request",
            1,
            user_email=person(request["payer"]).email,
            amount=request["amount"],
            description=request["what"],
        )


def _add_music(me: User, models: Any) -> None:  # noqa: ANN401
    artists = {row["name"]: models.spotify.Artist(**row) for row in WORLD["artists"]}
    for artist in artists.values():
        artist.save()
    songs = {}
    for number, row in enumerate(WORLD["songs"]):
        song = models.spotify.Song(
            title=row["title"],
            artist_ids=[artists[row["artist"]].id],
            duration=row["seconds"],
            release_date=datetime.datetime(2015 + number % 7, 1 + number, 3),
            genre=row["genre"],
            play_count=row["plays"],
        )
        song.save()
        songs[row["title"]] = song.id
    for title in WORLD["library"]:
        me("spotify", "add_song_to_library", song_id=songs[title])
    for row in WORLD["playlists"]:
        playlist = me("spotify", "create_playlist", title=row["title"])["playlist_id"]
        for title in row["songs"]:
            me("spotify", "add_song_to_playlist", playlist_id=playlist, song_id=songs[title])


def _add_shop(models: Any) -> None:  # noqa: ANN401
    seller = models.amazon.Seller(**WORLD["seller"])
    seller.save()
    for row in WORLD["products"]:
        models.amazon.Product(
            product_type=row["kind"],
            name=row["name"],
            description=f"A {row['kind']}.",
            seller_id=seller.id,
            price=row["price"],
            delivery_days=3,
            inventory_quantity=20,
            weight=1.0,
            length=10.0,
            width=10.0,
            height=10.0,
            rating=row["rating"],
            seller_rating=WORLD["seller"]["rating"],
        ).save()
