"""Contents of the pages: one method makes a page from one look at the chain."""

from __future__ import annotations

from .dispute_pages import DisputePages
from .job_pages import JobPages
from .operator_pages import OperatorPages
from .proof_pages import ProofPages


class Pages(JobPages, DisputePages, OperatorPages, ProofPages):
    """All pages."""
