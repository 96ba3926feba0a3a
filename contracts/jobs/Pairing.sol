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
    KeptGroup,
    KeptJob,
    Seat,
    StakedClaim,
    Trainer
} from "../interfaces/JobTypes.sol";
import {SeatLookup} from "./SeatLookup.sol";
import {LibCall} from "solady/utils/LibCall.sol";
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
abstract contract Pairing is SeatLookup {
    // ------------------------------------------------------------------ types

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
    uint256 private constant OPEN_HEAD = 8 * 0x20;
    /// @dev INVARIANT: in a mode with logs nobody can claim before the one trainer has, so the first group is the
    /// trainer's, and its first member is the trainer's claim.
    uint32 internal constant TRAINERS_GROUP = 0;

    /// @dev Whether an account that holds no slot has claimed a root. NOTE: a refutation is not a claim.
    mapping(uint256 jobId => mapping(address owner => bool)) internal _hasClaimed;
    mapping(uint256 jobId => mapping(uint32 group => Queue)) internal _queues;

    // ------------------------------------------------------------------ moves

    function resolve(uint256 jobId, uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        if (msg.sender != job.referee) revert NotReferee(msg.sender, job.referee);
        (bool open, uint32 group0, uint32 group1) = pairOf(jobId, matchId);
        if (!open) revert NoSuchMatch(jobId, matchId);
        if (losers == 0 || losers > 3) revert BadResult(losers);

        --job.openMatches;
        _groups[jobId][group0].opponent = 0;
        (_groups[jobId][group1].opponent, _groups[jobId][group1].second) = (0, false);
        emit Resolved(jobId, matchId, losers, reason);

        _distribute(jobId, job, group0, group1, losers, deciders);
        if (_groups[jobId][group1].refutes != 0) return _endRefutation(jobId, job, group0, losers & 2 == 0);
        // NOTE: at most one match opens here: if the first group finds one waiting, the second one waits.
        _reenter(jobId, job, group0);
        _reenter(jobId, job, group1);
    }

    // ------------------------------------------------------------------ groups

    /// @dev Adds a proven claim of the sender to the group of its root, behind all its members, or founds the group. A group
    /// without a living member enters. The job's counts of claims do not include this one yet.
    function _claim(
        uint256 jobId,
        KeptJob storage job,
        Claim calldata claim,
        uint32 number,
        Seat storage seat,
        uint256 stake,
        bool slot
    ) internal {
        uint256 found = _groupOf(jobId, job, claim.root);
        uint8 flags = CLAIMS;
        uint32 groupNumber = uint32(found == 0 ? _groupCount(job) : found - 1);
        if (found != 0) {
            if (!slot) ++job.followers;
        } else if (slot) {
            ++job.slotGroups;
            // SAFETY: at most 16 slots, so the number fits in four bits.
            flags |= FOUNDS | uint8(groupNumber << GROUP_BITS);
        } else {
            ++job.founded;
            _laterGroups[jobId][claim.root] = groupNumber + 1;
        }
        KeptGroup storage group = _groups[jobId][groupNumber];
        uint8 place = group.size;
        bool dead = group.spokesman == place;
        _sit(seat, stake, flags, claim.root);
        _addMember(jobId, groupNumber, group, number);
        if (slot) ++group.slots;
        emit Claimed(jobId, msg.sender, number, groupNumber, claim.root, claim.last, stake, claim.uri);

        if (!dead) return;
        // SAFETY: data can be requested even of a claim in the last second. After Reveal the challenge phase is to
        // come.
        // NOTE: where logs are withheld nothing is accepted.
        if ((!slot || place != 0) && job.finder == address(0)) _delay(job, group);
        _enter(jobId, job, groupNumber);
    }

    /// @dev Stores a claim or refutation of the sender.
    function _sit(Seat storage seat, uint256 stake, uint8 flags, bytes32 mark) internal {
        (seat.owner, seat.stake, seat.flags) = (msg.sender, SafeCastLib.toUint88(stake), flags);
        seat.mark = mark;
    }

    /// @dev Lets a group play its first refutation; without one, the group that waits; without that one, it waits.
    function _enter(uint256 jobId, KeptJob storage job, uint32 groupNumber) internal {
        if (job.finder != address(0)) return;
        Queue storage queue = _queues[jobId][groupNumber];
        if (queue.next < queue.length) {
            return _pair(jobId, job, groupNumber, queue.groups[queue.next++]);
        }
        if (job.waiting == 0) {
            job.waiting = uint24(groupNumber + 1);
            emit Waiting(jobId, groupNumber);
            return;
        }
        uint32 other = uint32(job.waiting) - 1;
        job.waiting = 0;
        _pair(jobId, job, other, groupNumber);
    }

    /// @dev Opens a match between two groups.
    function _pair(uint256 jobId, KeptJob storage job, uint32 other, uint32 groupNumber) private {
        ++job.openMatches;
        _groups[jobId][other].opponent = uint24(groupNumber + 1);
        KeptGroup storage group1 = _groups[jobId][groupNumber];
        (group1.opponent, group1.second) = (uint24(other + 1), true);
        uint256 number = (uint256(other) << MEMBER_BITS) | groupNumber;
        uint256 matchId = _open(jobId, job, number, other, groupNumber);
        // SAFETY: the reentrancy guard spans the call; an id of another number would confuse two matches.
        if (uint48(matchId) != number) revert MatchTaken(jobId, matchId);
        emit Paired(jobId, matchId, other, groupNumber);
    }

    /// @dev Opens a match at the job's referee. NOTE: the Notary's encoding of the program is passed on as it is, with
    /// a leading word of its own; so the program's offset here points behind that word.
    function _open(uint256 jobId, KeptJob storage job, uint256 number, uint32 group0, uint32 group1)
        private
        returns (uint256)
    {
        bytes memory program =
            LibCall.staticCallContract(address(NOTARY), abi.encodeCall(INotary.programOf, (jobId)));
        bytes memory move = abi.encodeWithSelector(
            IReferee.open.selector,
            jobId,
            [_rootOf(jobId, job, group0), _rootOf(jobId, job, group1)],
            [_spokesman(jobId, job, group0).owner, _spokesman(jobId, job, group1).owner],
            job.clock,
            number,
            OPEN_HEAD + 0x20
        );
        bytes memory answer = LibCall.callContract(job.referee, abi.encodePacked(move, program));
        return abi.decode(answer, (uint256));
    }

    /// @dev After a match: a group with a member left enters again; one without is dead. NOTE: where logs are withheld
    /// nothing is accepted, so no group enters, and nobody needs time to claim.
    function _reenter(uint256 jobId, KeptJob storage job, uint32 groupNumber) internal {
        if (job.finder != address(0)) {
            if (groupNumber == TRAINERS_GROUP) _condemn(jobId, job);
            return;
        }
        KeptGroup storage group = _groups[jobId][groupNumber];
        if (group.spokesman < group.size) return _enter(jobId, job, groupNumber);
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
        uint40 end = uint40(_time()) + job.challengePeriod;
        if (end <= job.challengeEnd) return;
        job.reopened = end;
        _setChallenge(jobId, job, end);
    }

    /// @dev Grants a challenge period to claim a lost root again, or to request the data of a new one.
    function _delay(KeptJob storage job, KeptGroup storage group) private {
        group.until = _wait(job);
    }

    /// @dev Lets the job last for a challenge period more at least, and returns the end of that.
    function _wait(KeptJob storage job) private returns (uint40 end) {
        end = uint40(_time()) + job.challengePeriod;
        job.reclaimEnd = end;
    }

    // ------------------------------------------------------------------ money

    /// @dev Takes a stake from what the sender has paid, and credits the rest to it. SAFETY: at least, not exactly,
    /// because a claim just before this one makes this one dearer.
    function _take(uint256 paid, uint256 stake) internal {
        if (paid < stake) revert WrongStake(paid, stake);
        _credit(msg.sender, paid - stake);
    }

    /// @dev Takes the losers' stakes: half goes to a winner and the deciding verifiers, a tenth of the whole to these;
    /// the rest is burned. SAFETY: the verifiers' tenth comes out of the winner's half; otherwise a party that loses to
    /// itself with verifiers of its own would lose less than half.
    function _distribute(
        uint256 jobId,
        KeptJob storage job,
        uint32 group0,
        uint32 group1,
        uint8 losers,
        address[] calldata deciders
    ) private {
        uint256 pot;
        if (losers & 1 != 0) pot += _lose(jobId, job, group0);
        if (losers & 2 != 0) pot += _lose(jobId, job, group1);
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
        _credit(_spokesman(jobId, job, losers == 1 ? group1 : group0).owner, half - shares);
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
        _reward(job.finder, _lose(jobId, job, TRAINERS_GROUP));
    }

    /// @dev Takes the claim of a group's spokesman; the next member speaks, or the group is dead. SAFETY: a dead root
    /// that is claimed again is in another life, even where logs are withheld, free of earlier requests.
    function _lose(uint256 jobId, KeptJob storage job, uint32 groupNumber) internal returns (uint256) {
        KeptGroup storage group = _groups[jobId][groupNumber];
        uint32 claimNumber = _memberAt(jobId, groupNumber, group.spokesman);
        Seat storage lost = _seatOf(jobId, job, claimNumber);
        if (++group.spokesman == group.size) ++group.deaths;
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
        public
        view
        returns (bool open, uint32 group0, uint32 group1)
    {
        (group0, group1) = (uint24(matchId >> MEMBER_BITS), uint24(matchId));
        KeptGroup storage second = _groups[jobId][group1];
        // INVARIANT: a group plays one match at a time, so two groups that play each other are in the match that was
        // opened last for them.
        open = second.second && second.opponent == group0 + 1;
    }

    /// @dev Returns whether this root has a claim that is not lost.
    function _isClaimed(uint256 jobId, bytes32 root) internal view returns (bool) {
        uint256 number = _groupOf(jobId, _jobs[jobId], root);
        if (number == 0) return false;
        KeptGroup storage group = _groups[jobId][number - 1];
        return group.spokesman < group.size;
    }
}
