"""Certificate authorities that sign, let expire and revoke, and the files that servers and clients read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate chain and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """As files; returns the certificate's path and the key's."""
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
        return paths


@dataclass
class Authority:
    """An authority of its own."""

    _ca: trustme.CA = field(default_factory=trustme.CA)

    @property
    def certificate(self) -> bytes:
        """Its own certificate, in PEM."""
        return self._ca.cert_pem.bytes()

    def issue(self, *names: str, expired: bool = False) -> Pair:
        """A certificate for DNS names, addresses or e-mails, good for a day or until yesterday."""
        end = datetime.now(UTC) + (-DAY if expired else DAY)
        leaf = self._ca.issue_cert(*names, not_before=end - 2 * DAY, not_after=end)
        return Pair(b"".join(pem.bytes() for pem in leaf.cert_chain_pems), leaf.private_key_pem.bytes())

    def revoke(self, *pairs: Pair) -> bytes:
        """A list of revoked certificates, in PEM; it names those that are given."""
        now, own = datetime.now(UTC), x509.load_pem_x509_certificate(self.certificate)
        crl = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(own.subject)
            .last_update(now - DAY)
            .next_update(now + DAY)
        )
        for pair in pairs:
            serial = x509.load_pem_x509_certificate(pair.certificate).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - DAY)
            crl = crl.add_revoked_certificate(revoked.build())
        key: EllipticCurvePrivateKey = load_pem_private_key(self._ca.private_key_pem.bytes(), None)  # type: ignore[assignment]  # that is what trustme makes
        return crl.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
