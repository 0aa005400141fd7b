"""Findings of an examination: a status, the facts behind it, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from enum import StrEnum


class Status(StrEnum):
    """The grade of a finding."""

    OK = "ok"
    """Nothing to do."""
    WARNING = "warning"
    """The service runs, but less safely, more slowly or with less than this machine could offer."""
    PROBLEM = "problem"
    """The service does not start, or not as it is configured or required."""


_ORDER = (Status.OK, Status.WARNING, Status.PROBLEM)


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """The result of one check."""

    subject: str
    """The subject of the check, such as ``engine``; several findings share it."""
    check: str
    """The check, unique within the subject."""
    status: Status
    found: str
    """The facts, as a short sentence."""
    fix: str = ""
    """The way to fix it, in one sentence; empty where nothing is to be done."""
    offers: frozenset[str] = frozenset()
    """Capabilities that this machine has by this finding, as ``--require`` names them."""
    lacks: frozenset[str] = frozenset()
    """Capabilities that it does not have."""


def ok(subject: str, check: str, found: str, *offers: str) -> MachineFinding:
    """Return a finding with which nothing is wrong."""
    return MachineFinding(subject, check, Status.OK, found, offers=frozenset(offers))


def warning(subject: str, check: str, found: str, fix: str, *lacks: str) -> MachineFinding:
    """Return a finding that does not keep the service from running."""
    return MachineFinding(subject, check, Status.WARNING, found, fix, lacks=frozenset(lacks))


def problem(subject: str, check: str, found: str, fix: str, *lacks: str) -> MachineFinding:
    """Return a finding that keeps the service from running as configured."""
    return MachineFinding(subject, check, Status.PROBLEM, found, fix, lacks=frozenset(lacks))


def absent(subject: str, check: str, found: str, fix: str, *lacks: str) -> MachineFinding:
    """Return a finding about something optional that is not there: ok, unless it is required."""
    return MachineFinding(subject, check, Status.OK, found, fix, lacks=frozenset(lacks))


def worst(findings: Iterable[MachineFinding]) -> Status:
    """Return the worst status of the findings."""
    return max((finding.status for finding in findings), key=_ORDER.index, default=Status.OK)


def required(findings: Iterable[MachineFinding], capabilities: Set[str]) -> list[MachineFinding]:
    """Return the findings, with those as problems that lack a required capability."""
    return [
        replace(finding, status=Status.PROBLEM, found=f"{finding.found} (required: {', '.join(wanted)})")
        if (wanted := sorted(finding.lacks & capabilities))
        else finding
        for finding in findings
    ]


def as_json(findings: Iterable[MachineFinding]) -> list[Mapping[str, object]]:
    """Return the findings as plain data."""
    return [
        {
            "subject": finding.subject,
            "check": finding.check,
            "status": finding.status.value,
            "found": finding.found,
            "fix": finding.fix,
            "offers": sorted(finding.offers),
            "lacks": sorted(finding.lacks),
        }
        for finding in findings
    ]
