"""Data requests in a job that is played: of places that exist or do not, answered in the last second."""

from __future__ import annotations

from random import Random

from referee_py.availability import Piece, Place
from referee_py.availability.prices import deposit_of
from referee_py.availability.solver import response_of
from referee_py.availability.state import OUTPUTS
from tests.model.data_availability import Subject
from tests.referee_py.game.chain import Transaction
from tests.referee_py.game.random_request import Known
from tests.referee_py.game.synthetic_run import Run
from trainer_node.chain.codec.availability import provide_call, request_call

from .job import CaseGraph, rounded
from .table import Table, most_gas

PLACES = 3
"""Number of places under the claimed root."""
BEYOND = 1 << 40
"""A leaf or a page that no tensor and no log has."""


class OpenRequest:
    """`who` are the requester and the responder."""

    def __init__(
        self, table: Table, graph: CaseGraph, run: Run, job_id: int, who: tuple[str, str], rng: Random
    ) -> None:
        self.table, self.graph, self.run, self.job_id, self.rng = table, graph, run, job_id, rng
        self.auditor, self.right = who

    def play(self) -> None:
        """Play all of it: every request has an answer that the contract accepts."""
        asked = [(Subject(self.job_id, self.run.root), [self._place() for _ in range(PLACES)])]
        if rounded(self.graph):
            part = self.rng.choice((0, 0, 1, BEYOND))
            logs = [Place(Piece.DIGESTS, 1, 0), Place(Piece.BLOCKS, 1, self.graph.node, 0, part)]
            asked.append((Subject(self.job_id, self.graph.logs), logs))
        every = [(about, place) for about, places in asked for place in dict.fromkeys(places)]
        for about, places in asked:
            self._request(about, list(dict.fromkeys(places)))
        until = self.table.model.data_availability.requests[every[0]].until
        for at, (about, place) in enumerate(every, until - len(every) + 1):
            self._answer(about, place, at)

    def _request(self, about: Subject, places: list[Place]) -> None:
        requests, contract = self.table.model.data_availability, self.table.chain.data_availability
        deposit = sum(deposit_of(place.piece, requests.price_of(about.job_id)) for place in places)
        function, given = request_call(self._wire(about), places)
        data = contract.calldata(function, *given)
        self.table.send(
            "dataAvailability.request",
            Transaction(self.auditor, contract.address, data, deposit),
            lambda now: requests.request(about, places, self.auditor, deposit, now),
        )

    def _answer(self, about: Subject, place: Place, at: int) -> None:
        requests, contract = self.table.model.data_availability, self.table.chain.data_availability
        answer = response_of(self.graph.header, place, Known(self.run))
        function, given = provide_call(self._wire(about), place, answer)
        data = contract.calldata(function, *given)
        self.table.send(
            f"dataAvailability.{answer.function}",
            Transaction(self.right, contract.address, data),
            lambda now: requests.answer(about, place, answer, self.right, now),
            at,
            most_gas([(answer.function, data)]),
        )

    def _wire(self, about: Subject) -> tuple[str, int, bytes]:
        return self.table.chain.jobs.address, about.job_id, about.root

    def _place(self) -> Place:
        """Return a record or a leaf at the first checkpoint; some tensors and leaves do not exist."""
        if self.rng.random() < 0.3:
            return Place(Piece.RECORD, 0, self.rng.randrange(len(self.graph.structures)))
        node = self.graph.structure_at(self.graph.node)
        inputs, outputs = len(node.inputs), len(node.outputs)
        tensor = self.rng.choice((*range(inputs + 1), *range(OUTPUTS, OUTPUTS + outputs + 1)))
        return Place(Piece.LEAF, 0, self.graph.node, tensor, self.rng.choice((0, 0, 0, 1, 2, BEYOND)))
