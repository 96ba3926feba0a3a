"""The proof that a dispute gives, its assumptions, and its check from chain and artifacts."""

from __future__ import annotations

from referee_py.errors import InvalidInput, Unavailable
from referee_py.walk.reason import Reason
from trainer_node.chain import recorded
from trainer_node.client.dispute_words import CASES
from trainer_node.client.parties import Parties
from trainer_node.ids import side_of, whole
from trainer_node.network.sources import Served

from .chain import Case, Look
from .disputed import Disputed, question_about, servers_of
from .element import shown
from .history import moments
from .ladder import ladder
from .rungs import Ladder


class ProofPages(Disputed):
    """The page of a proof, and the same as statements that hold or do not."""

    def proof(self, number: int, match: str) -> str:
        """Show the proof that a dispute gives, its assumptions, and the commands that check it again."""

        def make(look: Look) -> str:
            case = self.case(look, number, match)
            parties = Parties(case.job)
            found = ladder(case, moments(case), parties.name)
            return self._render(
                "proof.html",
                f"Proof of a dispute in job {number}",
                live=None if self._place.static else self._place.part(number, case.id, "proof"),
                look=look,
                case=case,
                job=case.job,
                summary=self._summary(case, found, parties),
                ladder=found,
                same=is_replayed(case),
                said=statements(case, found),
                addresses=look.client.deployment.addresses,
                commands=[
                    self._command("dispute", "show", number, whole(case.id)),
                    self._command("explorer", "check", number, whole(case.id)),
                ],
            )

        return self._chain.reading(make)

    def check(self, number: int, match: str) -> list[tuple[str, bool | None]]:
        """Return statements about a dispute, and whether each holds; None if that cannot be found out."""

        def make(look: Look) -> list[tuple[str, bool | None]]:
            case = self.case(look, number, match)
            found = ladder(case, moments(case), Parties(case.job).name)
            said: list[tuple[str, bool | None]] = [
                ("the rules in Python, given the same moves, decide as the contracts did", is_replayed(case))
            ]
            question = (
                None if found.losers is None else question_about(case, found, self._program_now(case.job))
            )
            losers = found.losers or ()
            if question is None or found.reason is not Reason.OPERATOR:
                return said
            try:
                one = shown(question, Served(self._fetcher, servers_of(case)), self._memory)
            except (Unavailable, InvalidInput) as error:
                return [*said, (f"the operator cannot be computed: {error}", None)]
            for side in (0, 1):
                right = None if one.right is None else one.right.bits == one.values[side].bits
                word = "lost" if side in losers else "won"
                holds = None if right is None else right is not (side in losers)
                is_right = "not known" if right is None else "right" if right else "wrong"
                said.append(
                    (
                        f"{side_of(side)} {word}; its element {one.element} is {is_right}: {one.values[side].hex}",
                        holds,
                    )
                )
            return said

        return self._chain.reading(make)


def is_replayed(case: Case) -> bool | None:
    """Return whether the rules in Python, given the same moves, decide as the contracts did; None: not known."""
    last = moments(case)[-1].trace
    if last is None:
        return None
    return bool(last == recorded(case.look.snapshot, case.job, case.id))


def statements(case: Case, found: Ladder) -> dict[str, list[str]]:
    """Return what a dispute proves, and what that assumes, by how it was decided."""
    reason = found.reason
    by_court = bool(case.trials) and reason is Reason.OPERATOR
    proves = ["The two run roots differ, and both sides have staked on theirs."]
    if found.found.step is not None:
        proves.append(
            f"Step {found.found.step} is the first step that differs: both sides commit to the same checkpoint before "
            "it, by paths under their own roots that the referee has checked."
        )
    if found.found.node is not None:
        proves.append(
            f"Operator {found.found.node} is the first one whose records differ; all operators before it have the same "
            "records on both sides."
        )
    assumes = [
        "SHA-256 and Keccak-256 have no collisions.",
        "The chain orders transactions, and lets both sides send theirs within their clocks.",
    ]
    if reason is None:
        proves.append("Nobody is shown wrong yet.")
    elif reason is Reason.TIMEOUT:
        who, whose = (
            ("Neither side moved", "their")
            if len(found.losers or ()) > 1
            else ("The loser did not move", "its")
        )
        proves.append(f"{who} in time. That proves nothing about {whose} numbers.")
    elif reason is Reason.OPERATOR and by_court:
        proves.append(
            "The contract computed one step of one element with its own floating point, from operands that are proven "
            "to be the operator's agreed inputs. The loser's number does not follow from them."
        )
        assumes.append(
            "The contracts' arithmetic is that of the operator's specification, which tests compare bit by bit."
        )
    elif reason is Reason.OPERATOR:
        proves.append(
            "Enough of the job's verifiers have signed the winner's record, and nobody appealed in time."
        )
        assumes.append(
            "The verifiers computed what they signed. Their bonds were at stake, and either side could have had the "
            "court judge instead."
        )
    else:
        proves.append(f"By hashes alone: {CASES[reason][1]}.")
    assumes.append(
        "Who accepts the job's result relies on one honest party having taken part. A dispute says who was wrong here; "
        "it does not say that the other side's whole run is right."
    )
    return {"proves": proves, "assumes": assumes}
