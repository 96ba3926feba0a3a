"""The page of a certificate, of a run or a job, and its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer_node.audit.certificate import Certificate
from trainer_node.client.job_certificate import certificate_of

from .chain import Look
from .desk import Desk

MEDIA: dict[str, tuple[str, Callable[[Certificate], bytes]]] = {
    "certificate.json": ("application/json", Certificate.statement),
    "badge.svg": ("image/svg+xml", lambda found: found.badge().encode()),
}
"""Files of a certificate: their types, and how they are made."""
GROUPS = ("by", "What each has said"), ("evidence", "The evidence")
BUNDLE = "--bundle", "JOB"
"""Flags of a command that makes a certificate with the names of a bundle."""
MOST = 100
"""Rows of a table that are shown."""


def content(found: Certificate, of: str, base: str, command: str) -> dict[str, Any]:
    """Return what the template shows. ``of``: what the certificate is about; ``base``: where its files are."""
    return {"found": found, "of": of, "base": base, "command": command, "groups": GROUPS, "most": MOST}


class CertificatePages(Desk):
    """Certificates of jobs."""

    def certificate(self, number: int) -> str:
        """Show what the chain says of an accepted result."""
        found = self.job_certificate(number)
        command = self._command("job", "certificate", number, *(BUNDLE if self._bundle_known(number) else ()))
        more = content(found, f"job {number}", f"{self._place.job(number)}/", command)
        return self._render("certificate.html", f"Certificate of job {number}", number=number, **more)

    def _bundle_known(self, number: int) -> bool:
        return self._chain.reading(lambda look: look.job(number).program_file in self._bundles)

    def job_certificate(self, number: int) -> Certificate:
        """Return the certificate of a job. Raises InvalidInput for one without an accepted result."""

        def make(look: Look) -> Certificate:
            job = look.job(number)
            return certificate_of(
                look.snapshot, look.client.deployment, job, self._bundles.get(job.program_file)
            )

        return self._chain.reading(make)
