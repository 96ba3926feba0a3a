"""The receipts of a server, the newest of them: as many as fit into bounds of count and bytes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from eth_account.signers.local import LocalAccount

from referee_py.program.modes import USUAL
from trainer_node.audit.receipt_kernels import kernel_digest
from trainer_node.storage.untrusted_file import write_plain

from .answer import Answer
from .answer_run import AnswerRuns, backed_by
from .backed import Backing
from .model import Model
from .receipt import Lists, Signed, bits_of

MAX_RECEIPTS, MAX_TOTAL_BYTES = 10_000, 256 << 20


class Receipts:
    """Makes receipts with a key, and keeps the newest. ``clock``: seconds since 1970. Safe for several threads.

    ``backing``: the pledge behind each of them. Then every receipt is written to ``folder``, too, before anybody gets
    it: its server can be challenged long after the newest have taken its place.
    """

    def __init__(
        self,
        model: Model,
        account: LocalAccount,
        count: int = MAX_RECEIPTS,
        nbytes: int = MAX_TOTAL_BYTES,
        clock: Callable[[], float] = time.time,
        backing: Backing | None = None,
        folder: Path | None = None,
    ) -> None:
        self.account = account
        self._model, self._clock, self._folder = model, clock, folder
        self._backing = None if backing is None else (backing, AnswerRuns(model))
        self._count, self._nbytes = count, nbytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, name: str) -> bytes | None:
        """Return the file of a receipt by its id, if it is kept still."""
        with self._lock:
            return self._kept.get(name)

    def make(self, answer: Answer) -> str:
        """Sign and keep the receipt of an answer that has ended; return its id."""
        signed = receipt_of(self._model, answer, self.account, int(self._clock()), self._backing)
        data, name = signed.to_bytes(), signed.receipt.id
        if self._folder is not None:
            write_plain(self._folder / f"{name}.json", data)
        with self._lock:
            self._size += len(data) - len(self._kept.pop(name, b""))
            self._kept[name] = data
            while len(self._kept) > self._count or self._size > self._nbytes:
                _, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest)
        return name


def receipt_of(
    model: Model,
    answer: Answer,
    account: LocalAccount,
    instant: int,
    backing: tuple[Backing, AnswerRuns] | None = None,
) -> Signed:
    """Return the signed receipt of an answer that has ended. ``backing``: the pledge behind it."""
    assert answer.end is not None
    identity, parameters = model.identity, answer.parameters
    lists = Lists(
        answer.prompt,
        tuple(answer.tokens),
        bits_of([one.logprob for one in answer.written]),
        tuple(one.step for one in answer.written),
    )
    fields = {
        "model": identity.root.hex(),
        "step": identity.step.hex(),
        "weights": identity.weights.hex(),
        "tokenizer": identity.tokenizer.hex(),
        "template": identity.template.hex(),
        "places": model.places,
        "temperature": int(np.float32(parameters.temperature).view(np.uint32)),
        "topK": parameters.top_k,
        "topP": int(np.float32(parameters.top_p).view(np.uint32)),
        "seed": parameters.seed,
        "finish": answer.end.value,
        "mode": USUAL.byte,
        "kernels": kernel_digest(USUAL.byte, "cpu"),
        "time": instant,
    }
    if backing is None:
        return Signed.by(account, fields, lists)
    return Signed.by(account, fields, lists, lambda receipt: backed_by(*backing, receipt, lists))
