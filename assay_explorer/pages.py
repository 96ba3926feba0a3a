"""Contents of the pages: one method makes a page from one look at the chain."""

from __future__ import annotations

from .account_pages import AccountPages
from .certificate_pages import CertificatePages
from .dispute_pages import DisputePages
from .job_pages import JobPages
from .operator_pages import OperatorPages
from .proof_pages import ProofPages


class Pages(JobPages, DisputePages, OperatorPages, ProofPages, CertificatePages, AccountPages):
    """All pages."""
