"""Tests of the service of language models, and of its receipts."""
