"""Certificates for tests of TLS, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sandbox_service.supervisor.options import TlsFiles

RSA = "rsa:2048"
EC = "ec -pkeyopt ec_paramgen_curve:prime256v1"


def certificates_in(folder: Path, *, days: int = 30, key_kind: str = RSA) -> TlsFiles:
    """Make a key and a certificate that signs itself in ``folder``, in place of those that are there."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = f"openssl req -x509 -newkey {key_kind} -nodes -days {days} -subj /CN=fleet -keyout"
    subprocess.run([*command.split(), str(key), "-out", str(certificate)], check=True, capture_output=True)
    return TlsFiles(str(certificate), str(key), authority=str(certificate))
