"""Commands as a person types them."""

from tests.trainer_node.cli.conftest import assay

__all__ = ["assay"]
