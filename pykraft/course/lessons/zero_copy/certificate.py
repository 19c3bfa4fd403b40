"""A certificate for lessons about TLS, and its key. Both are public: they encrypt, and protect nothing.

A program that shows this certificate proves nothing, so the other side does not check it. The lessons are about what
encryption does to bytes and to the processor, and that is the same with a good certificate.
"""

import ssl
import tempfile
from pathlib import Path

PUBLIC_CERTIFICATE_AND_KEY = """
-----BEGIN CERTIFICATE-----
MIIBvDCCAWGgAwIBAgIUSXnCq2JtUjf7W7CDPOdCJWz+uRIwCgYIKoZIzj0EAwIw
JDEiMCAGA1UEAwwZYSBjZXJ0aWZpY2F0ZSBmb3IgbGVzc29uczAgFw0yNjExMjIw
NTIyMDJaGA8yMTI2MTAyOTA1MjIwMlowJDEiMCAGA1UEAwwZYSBjZXJ0aWZpY2F0
ZSBmb3IgbGVzc29uczBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJH16mATQZx6
RTPX0jotLayLeeFnpWpDQIOA7YjvhDsh0uIleaO6Efb9rSMRC8pw1lYgjy+8/YTP
Qmbhct8/1kejbzBtMB0GA1UdDgQWBBTYdLjSFfvT2a4p0oXVWuyoTaYW1TAfBgNV
HSMEGDAWgBTYdLjSFfvT2a4p0oXVWuyoTaYW1TAaBgNVHREEEzARgglsb2NhbGhv
c3SHBH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAzW2s
ux7Wc9SAj9DJnG7w0NrK7hXtRdC7rSkivOJuJqYCIQDUCxFNKLJ0Ilyn7oHbQ8qO
yb+trWA3FJaYOlauzGC2Ww==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+ZH66Fvxd11X4pqR
gCH9JsU9muL2ZJrb/cLVfBBVjbChRANCAASR9epgE0GcekUz19I6LS2si3nhZ6Vq
Q0CDgO2I74Q7IdLiJXmjuhH2/a0jEQvKcNZWII8vvP2Ez0Jm4XLfP9ZH
-----END PRIVATE KEY-----
"""


def reading_side() -> ssl.SSLContext:
    """The client's side, which reads here: it accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def sending_side() -> ssl.SSLContext:
    """The server's side, which sends here: it shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "certificate.pem"
        file.write_text(PUBLIC_CERTIFICATE_AND_KEY, encoding="ascii")
        context.load_cert_chain(file)
    return context
