"""A wrong element in the backward pass of a GPT with more than 10 million parameters is found, and the liar loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpt_dispute import backward_nodes, run
from referee_py.walk.reason import Reason
from trainer_node.local.bundle import Bundle

pytest.importorskip("transformers", reason="needs the extra [models]")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_wrong_gradient_in_a_gpt_is_found(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(
        "\n".join(path.read_text() for path in sorted((Path(__file__).parents[2] / "docs").glob("*.md")))
    )
    result, lie, _ = run(text, tmp_path / "gpt", seed=1)
    assert result.just
    (match,) = result.disputes
    assert (match.reason, match.step, match.operator) == (Reason.OPERATOR, lie.step, lie.node)
    bundle = Bundle.read(tmp_path / "gpt" / "gpt")
    assert sum(a.size for a in bundle.initial) // 3 > 10_000_000
    assert lie.node in backward_nodes(bundle)
    moved = result.fetched["verifier 1"], result.fetched["verifier 2"]
    assert 0 < min(x for x in moved if x) < sum(a.nbytes for a in bundle.initial) / 10
