"""An authority that signs certificates, made on the spot: for clusters on one machine, and for tests.

It makes no certificate itself. The program ``openssl`` does, which the systems that TLS is used on have anyway; so no
code here knows what is inside of a certificate. Keys are of the elliptic curve P-256: one is made in a few
milliseconds, and Java, librdkafka and OpenSSL all take them.

Each file is PEM text, as ``ssl.keystore.location`` and ``ssl.truststore.location`` want it. The authority's private key
is in its folder, too, readable by this user alone. Do not use it for anything but a cluster to try things out.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pykraft.common.errors import ConfigError

_DAYS = "3650"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""


class CertificateAuthority:
    """An authority whose files are in a folder of its own."""

    def __init__(self, folder: Path, name: str = "pykraft") -> None:
        """Make it, unless the folder has one. ConfigError: there is no ``openssl``."""
        self._folder = folder
        self.certificate = folder / "authority.pem"
        """What the others trust."""
        self._key = folder / "authority.key"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._config = folder / "openssl.conf"
        self._config.write_text(_CONFIG, encoding="ascii")
        if not (self.certificate.exists() and self._key.exists()):
            self._run(
                *("req", "-x509", "-nodes", "-days", _DAYS, "-subj", f"/CN={name} authority"),
                *("-config", str(self._config), "-extensions", "authority", *_NEW_KEY),
                *("-keyout", str(self._key), "-out", str(self.certificate)),
            )

    def issue(self, file: str, subject: str, hosts: Sequence[str] = (), password: str = "") -> Path:
        """A keystore for this subject (``/O=Kraft/CN=alice``), which is valid for these hosts: a private key, encrypted
        if there is a password, and its certificate after it. One that exists is not made again."""
        keystore, request, key, extensions, signed = (
            self._folder / f"{file}{suffix}" for suffix in (".pem", ".request", ".key", ".extensions", ".signed")
        )
        if keystore.exists():
            return keystore
        secret = ("-passout", f"pass:{password}") if password else ("-nodes",)
        self._run(
            *("req", "-new", "-subj", subject, "-config", str(self._config), *secret, *_NEW_KEY),
            *("-keyout", str(key), "-out", str(request)),
        )
        extensions.write_text(_extensions(hosts), encoding="ascii")
        self._run(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-set_serial", str(int.from_bytes(os.urandom(15), "big")), "-days", _DAYS, "-sha256"),
            *("-extfile", str(extensions), "-out", str(signed)),
        )
        keystore.touch(mode=0o600)
        keystore.write_text(key.read_text(encoding="ascii") + signed.read_text(encoding="ascii"), encoding="ascii")
        for path in (request, key, extensions, signed):
            path.unlink()
        return keystore

    def _run(self, *arguments: str) -> None:
        before = os.umask(0o077)
        try:
            done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ConfigError("certificates are made by the program openssl, which is not found: install it") from None
        finally:
            os.umask(before)
        if done.returncode:
            raise ConfigError(f"openssl {arguments[0]} has failed: {done.stderr.strip().splitlines()[-1]}")


def _extensions(hosts: Sequence[str]) -> str:
    names = [f"{'IP' if host.replace('.', '').isdigit() or ':' in host else 'DNS'}:{host}" for host in hosts]
    lines = ["basicConstraints = critical, CA:false", "keyUsage = critical, digitalSignature"]
    lines += ["extendedKeyUsage = serverAuth, clientAuth"]
    lines += [f"subjectAltName = {', '.join(names)}"] if names else []
    return "\n".join(lines) + "\n"
