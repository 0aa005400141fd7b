"""The people of the synthetic world, and their accounts. All of them are made up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .authored import WORLD

APPS = ("amazon", "file_system", "gmail", "phone", "simple_note", "splitwise", "spotify", "todoist", "venmo")
"""Apps with accounts."""
_UNVERIFIED = ("gmail", "phone")
"""Apps whose users need no verification."""


@dataclass(frozen=True)
class Person:
    """A person with an account in every app."""

    first_name: str
    last_name: str
    phone_number: str
    birthday: str
    sex: str
    relationships: tuple[str, ...] = ()
    """Relationships to the supervisor."""

    @property
    def email(self) -> str:
        """Return the person's address, the same in every app."""
        return f"{self.first_name}.{self.last_name}@example.com".lower()

    def password(self, app: str) -> str:
        """Return the person's password in an app."""
        return f"{self.first_name.lower()}-{app[:4]}-{self.phone_number[-4:]}"


PEOPLE = tuple(Person(**{**row, "relationships": tuple(row["relationships"])}) for row in WORLD["people"])
ME = PEOPLE[0]


def person(first_name: str) -> Person:
    """Return one of the people."""
    return next(each for each in PEOPLE if each.first_name == first_name)


def add_people(models: Any) -> None:  # noqa: ANN401
    """Write the people into the databases, with their accounts and one card each."""
    for number, each in enumerate(PEOPLE, start=1):
        names = {"first_name": each.first_name, "last_name": each.last_name}
        main = models.admin.MainUser(
            **names, email=each.email, phone_number=each.phone_number, birthday=each.birthday, sex=each.sex
        )
        main.save()
        card = {
            "owner_name": f"{each.first_name} {each.last_name}",
            "card_name": "Visa",
            "card_number": 4000_0000_0000_0000 + number,
            "expiry_year": 2030,
            "expiry_month": 1 + number,
            "cvv_number": 100 + number,
        }
        models.admin.PaymentCard(main_user_id=main.id, **card, balance=2000.0).save()
        for app in APPS:
            _add_account(models, app, each, main.id, names, card)


def _add_account(
    models: Any,  # noqa: ANN401
    app: str,
    each: Person,
    main_id: int,
    names: dict[str, str],
    card: dict[str, Any],
) -> None:
    password = each.password(app)
    models.admin.AccountPassword(main_user_id=main_id, account_name=app, password=password).save()
    address = {"phone_number": each.phone_number} if app == "phone" else {"email": each.email}
    more: dict[str, Any] = {} if app in _UNVERIFIED else {"verified": True}
    if app == "venmo":
        more["venmo_balance"] = 400.0
    user = models[app].User(**names, **address, password=password, **more)
    user.save()
    if app in ("venmo", "amazon", "spotify"):
        models[app].PaymentCard(user_id=user.id, **card).save()
    if app == "file_system":
        models.file_system.Directory(path="/", user_id=user.id).save()
