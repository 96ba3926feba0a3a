// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Calls} from "../commit/Calls.sol";
import {INotary} from "../interfaces/INotary.sol";
import {IReferee, Reason} from "../interfaces/IReferee.sol";
import {
    Claim,
    Group,
    Job,
    JobPhase,
    KeptClaim,
    KeptJob,
    StakedClaim,
    Trainer
} from "../interfaces/JobTypes.sol";
import {Board} from "./Board.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title Pairing
/// @notice Claims form groups by root; groups play matches until one group is left.
///
///     claim ─▶ group ─enter─▶ waiting place empty? ─yes─▶ waits
///                                  │no
///                                  ▼
///                   match (waiting group is side 0) ─▶ losing spokesmen out; groups with a member left enter again
///
/// A refutation is a group of one claim that plays only the group it refutes, which plays its queue of refutations
/// before anything else, one at a time.
///
/// @dev INVARIANT: at most one living group is in no match, refutations aside. So of `g` living groups at least `g / 2` spokesmen have
/// lost when all matches then open are over (docs/economics.md draws the conclusions).
abstract contract Pairing is Board {
    // ------------------------------------------------------------------ types

    struct Pair {
        bool open;
        uint32 group0;
        uint32 group1;
    }

    /// @notice The refutations of a group, as group numbers in the order of arrival; those before `next` have played.
    /// NOTE: with its length next to `next`, a group that enters reads one word.
    struct Queue {
        uint32 next;
        uint32 length;
        mapping(uint256 place => uint32 group) groups;
    }

    // ------------------------------------------------------------------ storage

    /// @notice The winner's fraction of a lost stake. NOTE: at most half, so that nobody profits from losing to itself.
    uint256 private constant PRIZE_DIVISOR = 2;
    /// @notice The deciding verifiers get this fraction; if there is a winner, out of the winner's half.
    uint256 private constant VERDICT_DIVISOR = 10;
    /// @dev Bytes of the arguments of `IReferee.open` before the program.
    uint256 private constant OPEN_HEAD = 7 * 0x20;
    /// @dev INVARIANT: in a mode with logs nobody can claim before the one trainer has, so the first group is the
    /// trainer's, and its first member is the trainer's claim.
    uint32 internal constant TRAINERS_GROUP = 0;

    mapping(uint256 jobId => mapping(uint256 matchId => Pair)) private _pairs;
    /// @dev Whether an account has claimed a root. NOTE: a refutation is not a claim.
    mapping(uint256 jobId => mapping(address owner => bool)) internal _hasClaimed;
    /// @dev Number plus one; zero means none.
    mapping(uint256 jobId => mapping(bytes32 root => uint256)) internal _groupOf;
    mapping(uint256 jobId => mapping(uint32 group => Queue)) internal _queues;

    // ------------------------------------------------------------------ moves

    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        if (msg.sender != job.terms.referee) revert NotReferee(msg.sender, job.terms.referee);
        Pair storage pair = _pairs[jobId][matchId];
        if (!pair.open) revert NoSuchMatch(jobId, matchId);
        if (losers == 0 || losers > 3) revert BadResult(losers);

        (uint32 group0, uint32 group1) = (pair.group0, pair.group1);
        pair.open = false;
        --job.openMatches;
        _groups[jobId][group0].matchId = 0;
        _groups[jobId][group1].matchId = 0;
        emit Resolved(jobId, matchId, losers, reason);

        _distribute(jobId, group0, group1, losers, deciders);
        if (_groups[jobId][group1].refutes != 0) return _endRefutation(jobId, job, group0, losers & 2 == 0);
        // NOTE: at most one match opens here: if the first group finds one waiting, the second one waits.
        _reenter(jobId, job, group0);
        _reenter(jobId, job, group1);
    }

    // ------------------------------------------------------------------ groups

    /// @dev Adds a proven claim to the group of its root, behind all its members, or founds the group. A group without
    /// a living member enters.
    function _claim(uint256 jobId, KeptJob storage job, Claim calldata claim, uint256 stake, bool slot)
        internal
    {
        Group[] storage groups = _groups[jobId];
        uint256 number = _groupOf[jobId][claim.root];
        if (number == 0) {
            _found(jobId, claim.root, claim.last);
            number = groups.length;
            _groupOf[jobId][claim.root] = number;
        }
        uint32 groupNumber = uint32(number - 1);
        Group storage group = groups[groupNumber];
        uint32 place = uint32(group.members.length);
        bool dead = group.spokesman == place;
        _add(jobId, groupNumber, stake, slot, claim.uri);
        _hasClaimed[jobId][msg.sender] = true;

        if (!dead) return;
        // SAFETY: data can be requested even of a claim in the last second. After Reveal the challenge phase is to
        // come.
        // NOTE: where logs are withheld nothing is accepted.
        if ((!slot || place != 0) && job.finder == address(0)) _delay(job, group);
        _enter(jobId, job, groupNumber);
    }

    /// @dev Adds a group without members.
    function _found(uint256 jobId, bytes32 root, bytes32 last) internal returns (Group storage group) {
        group = _groups[jobId].push();
        group.root = root;
        group.last = last;
    }

    /// @dev Adds a claim of the sender to a group, behind all its members.
    function _add(uint256 jobId, uint32 groupNumber, uint256 stake, bool slot, string calldata uri) internal {
        Group storage group = _groups[jobId][groupNumber];
        uint32 place = uint32(group.members.length);
        uint32 claimNumber = uint32(_claims[jobId].length);
        group.members.push(claimNumber);
        group.atRisk += SafeCastLib.toUint96(stake);
        if (slot) ++group.slots;
        _claims[jobId].push(
            KeptClaim({
                owner: msg.sender,
                stake: uint96(stake),
                group: groupNumber,
                place: place,
                slot: slot,
                collected: false,
                uri: uri
            })
        );
        emit Claimed(jobId, msg.sender, claimNumber, groupNumber, group.root, group.last, stake, uri);
    }

    /// @dev Lets a group play its first refutation; without one, the group that waits; without that one, it waits.
    function _enter(uint256 jobId, KeptJob storage job, uint32 groupNumber) internal {
        if (job.finder != address(0)) return;
        Queue storage queue = _queues[jobId][groupNumber];
        if (queue.next < queue.length) {
            return _pair(jobId, job, groupNumber, queue.groups[queue.next++]);
        }
        if (job.waiting == 0) {
            job.waiting = groupNumber + 1;
            emit Waiting(jobId, groupNumber);
            return;
        }
        uint32 other = job.waiting - 1;
        job.waiting = 0;
        _pair(jobId, job, other, groupNumber);
    }

    /// @dev Opens a match between two groups.
    function _pair(uint256 jobId, KeptJob storage job, uint32 other, uint32 groupNumber) private {
        ++job.openMatches;
        Group storage group0 = _groups[jobId][other];
        Group storage group1 = _groups[jobId][groupNumber];
        uint256 matchId = _open(jobId, job, group0, group1);
        // SAFETY: the reentrancy guard spans the call; an id that is zero or taken would confuse two matches.
        Pair storage pair = _pairs[jobId][matchId];
        if (matchId == 0 || pair.open) revert MatchTaken(jobId, matchId);
        _pairs[jobId][matchId] = Pair({open: true, group0: other, group1: groupNumber});
        group0.matchId = matchId;
        group1.matchId = matchId;
        emit Paired(jobId, matchId, other, groupNumber);
    }

    /// @dev Opens a match at the job's referee. NOTE: the Notary's encoding of the program is passed on as it is, with
    /// a leading word of its own; so the program's offset here points behind that word.
    function _open(uint256 jobId, KeptJob storage job, Group storage group0, Group storage group1)
        private
        returns (uint256)
    {
        bytes memory program =
            Address.functionStaticCall(address(NOTARY), abi.encodeCall(INotary.programOf, (jobId)));
        bytes memory move = abi.encodeWithSelector(
            IReferee.open.selector,
            jobId,
            [group0.root, group1.root],
            [_spokesman(jobId, group0).owner, _spokesman(jobId, group1).owner],
            job.terms.rules.clock,
            OPEN_HEAD + 0x20
        );
        bytes memory answer = Address.functionCall(job.terms.referee, abi.encodePacked(move, program));
        return abi.decode(answer, (uint256));
    }

    /// @dev After a match: a group with a member left enters again; one without is dead. NOTE: where logs are withheld
    /// nothing is accepted, so no group enters, and nobody needs time to claim.
    function _reenter(uint256 jobId, KeptJob storage job, uint32 groupNumber) internal {
        if (job.finder != address(0)) {
            if (groupNumber == TRAINERS_GROUP) _condemn(jobId, job);
            return;
        }
        Group storage group = _groups[jobId][groupNumber];
        if (group.spokesman < group.members.length) return _enter(jobId, job, groupNumber);
        // SAFETY: bad spokesmen can give a right root away, even in the last second. So a party that knows the root is
        // right gets a challenge period to claim it again. Each such claim costs twice the one before.
        _delay(job, group);
        emit GroupDied(jobId, groupNumber, group.until);
    }

    /// @dev After the match of a group and its refutation. One that has won is the first of the queue again, because
    /// the same leaf is wrong for the group's next spokesman. One that has lost has proved nothing: its author may have
    /// been silent. So the root can be refuted for a challenge period. Where no group is left, all claims may have been
    /// wrong, and the refuter need not know a right one: so there is a new challenge period, once.
    function _endRefutation(uint256 jobId, KeptJob storage job, uint32 refuted, bool won) private {
        // INVARIANT: a group plays one match at a time, so the winner is the one that the queue gave last.
        if (won) --_queues[jobId][refuted].next;
        // SAFETY: whoever has found the same lie may let others play first. NOTE: where logs are withheld nothing is
        // accepted.
        else if (job.finder == address(0)) _groups[jobId][refuted].refutableUntil = _wait(job);
        _reenter(jobId, job, refuted);
        if (job.reopened != 0) return;
        if (job.waiting != 0 || job.openMatches != 0 || job.finder != address(0)) return;
        uint64 end = uint64(_time()) + job.terms.challengePeriod;
        if (end <= job.challengeEnd) return;
        job.reopened = end;
        _setChallenge(jobId, job, end);
    }

    /// @dev Grants a challenge period to claim a lost root again, or to request the data of a new one.
    function _delay(KeptJob storage job, Group storage group) private {
        group.until = _wait(job);
    }

    /// @dev Lets the job last for a challenge period more at least, and returns the end of that.
    function _wait(KeptJob storage job) private returns (uint40 end) {
        end = uint40(_time()) + job.terms.challengePeriod;
        job.reclaimEnd = end;
    }

    // ------------------------------------------------------------------ money

    /// @dev Takes the losers' stakes: half goes to a winner and the deciding verifiers, a tenth of the whole to these;
    /// the rest is burned. SAFETY: the verifiers' tenth comes out of the winner's half; otherwise a party that loses to
    /// itself with verifiers of its own would lose less than half.
    function _distribute(
        uint256 jobId,
        uint32 group0,
        uint32 group1,
        uint8 losers,
        address[] calldata deciders
    ) private {
        uint256 pot;
        if (losers & 1 != 0) pot += _lose(jobId, group0);
        if (losers & 2 != 0) pot += _lose(jobId, group1);
        uint256 shares;
        if (deciders.length > 0) {
            uint256 shareDown = pot / VERDICT_DIVISOR / deciders.length;
            for (uint256 i = 0; i < deciders.length; ++i) {
                _credit(deciders[i], shareDown);
            }
            shares = shareDown * deciders.length;
        }
        if (losers == 3) return _credit(BURNED, pot - shares);
        uint256 half = pot / PRIZE_DIVISOR;
        _credit(_spokesman(jobId, _groups[jobId][losers == 1 ? group1 : group0]).owner, half - shares);
        _credit(BURNED, pot - half);
    }

    /// @dev Distributes stakes that are lost without a match: half goes to the finder, the rest is burned.
    function _reward(address finder, uint256 pot) internal {
        uint256 prize = pot / PRIZE_DIVISOR;
        _credit(finder, prize);
        _credit(BURNED, pot - prize);
    }

    /// @dev Takes the claim of a trainer that has withheld its logs, unless the claim was lost before.
    function _condemn(uint256 jobId, KeptJob storage job) internal {
        if (_groups[jobId][TRAINERS_GROUP].spokesman != 0) return;
        _reward(job.finder, _lose(jobId, TRAINERS_GROUP));
    }

    /// @dev Takes the claim of a group's spokesman; the next member speaks, or the group is dead. SAFETY: a dead root
    /// that is claimed again is in another life, even where logs are withheld, free of earlier requests.
    function _lose(uint256 jobId, uint32 groupNumber) internal returns (uint256) {
        Group storage group = _groups[jobId][groupNumber];
        uint32 claimNumber = group.members[group.spokesman];
        KeptClaim storage lost = _claims[jobId][claimNumber];
        if (++group.spokesman == group.members.length) ++group.deaths;
        group.atRisk -= lost.stake;
        emit ClaimLost(jobId, lost.owner, claimNumber);
        return lost.stake;
    }

    // ------------------------------------------------------------------ views

    function viewOf(uint256)
        external
        view
        returns (
            JobPhase phase,
            Job memory job,
            Trainer[] memory trainers,
            StakedClaim[] memory claims,
            Group[] memory groups
        )
    {
        Calls.relay(address(NOTARY));
    }

    function claimsFrom(uint256, uint256) external view returns (StakedClaim[] memory) {
        Calls.relay(address(NOTARY));
    }

    function groupsFrom(uint256, uint256) external view returns (Group[] memory) {
        Calls.relay(address(NOTARY));
    }

    function pairOf(uint256 jobId, uint256 matchId)
        external
        view
        returns (bool open, uint32 group0, uint32 group1)
    {
        Pair storage pair = _pairs[jobId][matchId];
        return (pair.open, pair.group0, pair.group1);
    }

    /// @dev Returns whether this root has a claim that is not lost.
    function _isClaimed(uint256 jobId, bytes32 root) internal view returns (bool) {
        uint256 number = _groupOf[jobId][root];
        if (number == 0) return false;
        Group storage group = _groups[jobId][number - 1];
        return group.spokesman < group.members.length;
    }

    function _spokesman(uint256 jobId, Group storage group) private view returns (KeptClaim storage) {
        return _claims[jobId][group.members[group.spokesman]];
    }
}
