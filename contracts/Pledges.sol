// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "./Escrow.sol";
import {Timed} from "./Timed.sol";
import {Hash} from "./commit/Hash.sol";
import {Merkle} from "./commit/Merkle.sol";
import {Programs} from "./commit/Programs.sol";
import {Records} from "./commit/Records.sol";
import {IJobs} from "./interfaces/IJobs.sol";
import {Backed, Challenge, Conditions, IPledges, Outcome, Pledge, Written} from "./interfaces/IPledges.sol";
import {JobPhase, Program, Terms} from "./interfaces/JobTypes.sol";
import {ECDSA} from "solady/utils/ECDSA.sol";
import {EIP712} from "solady/utils/EIP712.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title Pledges
/// @notice See IPledges.
contract Pledges is IPledges, Escrow, Timed, EIP712 {
    // ------------------------------------------------------------------ storage

    bytes32 private constant _BACKED = keccak256(
        "Backed(address owner,bytes32 answer,bytes32 program,bytes32 file,bytes32 written,uint64 until)"
    );
    /// @dev Keeps every instant far from overflow.
    uint32 private constant _MAX_NOTICE = 365 days;
    /// @dev Slots of a challenge's job: as many as Jobs allows.
    uint8 private constant _SLOTS = 16;
    /// @dev The part of its stake that Jobs takes of who gives a slot back.
    uint256 private constant _RESIGNING = 32;

    IJobs public immutable JOBS;
    address public immutable REFEREE;
    uint256 private immutable _COMMIT_AGE;

    mapping(address owner => Pledge) private _pledges;
    mapping(address owner => mapping(uint256 number => Challenge)) private _challenges;
    mapping(bytes32 digest => bool) public isWrong;
    mapping(bytes32 commitment => uint256) public committedAt;

    // ------------------------------------------------------------------ constructor

    constructor(IJobs jobs, address referee) Timed(jobs.TIME()) {
        JOBS = jobs;
        REFEREE = referee;
        _COMMIT_AGE = jobs.COMMIT_AGE();
    }

    // ------------------------------------------------------------------ moves

    function pledge(Conditions calldata conditions) external payable {
        Pledge storage kept = _pledges[msg.sender];
        if (kept.conditions == 0) {
            bool bounded = conditions.notice != 0 && conditions.notice <= _MAX_NOTICE;
            if (!bounded || conditions.forfeit == 0 || conditions.signer == address(0)) {
                revert BadConditions();
            }
            // SAFETY: who takes all slots of a job, and gives them back in its last second, keeps a challenger from them.
            // So it costs as much as a forfeit, and 16 charges.
            uint256 fee = conditions.stake / _RESIGNING;
            if (conditions.forfeit > _SLOTS * fee || conditions.charge > fee) revert StakeTooLow(fee);
            kept.conditions = _hashOf(conditions);
        }
        _check(msg.sender, kept, conditions);
        uint256 amount = kept.amount + msg.value;
        if (amount < conditions.forfeit) revert PledgeTooSmall(amount, conditions.forfeit);

        (kept.amount, kept.leavesAt) = (SafeCastLib.toUint96(amount), 0);
        emit Pledged(msg.sender, conditions.signer, amount, conditions);
    }

    function giveNotice(Conditions calldata conditions) external {
        Pledge storage kept = _pledges[msg.sender];
        _check(msg.sender, kept, conditions);
        if (kept.leavesAt != 0) revert AlreadyLeaving(msg.sender, kept.leavesAt);

        kept.leavesAt = uint40(_time()) + conditions.notice;
        emit Leaving(msg.sender, kept.leavesAt);
    }

    function reclaim() external {
        Pledge storage kept = _pledges[msg.sender];
        uint256 amount = kept.amount;
        if (amount == 0) revert NothingPledged(msg.sender);
        if (!_gone(kept)) revert StillPledged(msg.sender, kept.leavesAt);
        if (kept.opened != kept.decided) revert ChallengesOpen(msg.sender, kept.opened - kept.decided);

        kept.amount = 0;
        emit Reclaimed(msg.sender, amount);
        _credit(msg.sender, amount);
    }

    function commit(bytes32 commitment) external {
        if (committedAt[commitment] != 0) return;
        committedAt[commitment] = block.timestamp;
        emit Committed(commitment);
    }

    function challenge(
        Conditions calldata conditions,
        Backed calldata backed,
        bytes calldata signature,
        Program calldata program,
        string calldata uri,
        uint256 least,
        bytes32 salt
    ) external payable nonReentrant returns (uint256 jobId) {
        Pledge storage kept = _pledges[backed.owner];
        _check(backed.owner, kept, conditions);
        bytes32 digest = digestOf(backed);
        _checkOpen(kept, backed, digest, least, conditions.forfeit);
        address signer = ECDSA.tryRecoverCalldata(digest, signature);
        if (signer != conditions.signer) revert NotSigned(signer, conditions.signer);
        bytes32 hash = Programs.hash(program);
        if (hash != backed.program) revert OtherProgram(hash, backed.program);
        _checkRipe(commitmentOf(msg.sender, digest, salt));
        if (msg.value < conditions.charge) revert WrongCharge(msg.value, conditions.charge);

        uint256 number = kept.opened++;
        jobId = JOBS.post(_terms(conditions, program, backed.file, uri));
        _challenges[backed.owner][number] = Challenge(msg.sender, SafeCastLib.toUint56(jobId), 0, digest);
        emit Challenged(backed.owner, number, jobId, msg.sender, backed);
        _credit(msg.sender, msg.value - conditions.charge);
    }

    function decide(Conditions calldata conditions, Backed calldata backed, Written calldata written)
        external
        nonReentrant
    {
        (uint256 number, Challenge memory first, JobPhase ended) = _first(conditions, backed);
        Outcome outcome = Outcome.Upheld;
        // NOTE: who challenges can claim; if nobody has, the receipt stands.
        if (ended == JobPhase.Accepted && _writtenIn(first.jobId, written) != backed.written) {
            outcome = isWrong[first.digest] ? Outcome.Repeated : Outcome.Wrong;
        }
        _end(conditions, backed.owner, number, first, outcome);
    }

    function close(Conditions calldata conditions, Backed calldata backed) external nonReentrant {
        (uint256 number, Challenge memory first, JobPhase ended) = _first(conditions, backed);
        if (ended != JobPhase.Accepted) revert NothingAccepted(first.jobId);
        if (first.closesAt == 0) {
            uint40 closesAt = uint40(_time()) + conditions.challengePeriod;
            _challenges[backed.owner][number].closesAt = closesAt;
            emit Undecided(backed.owner, number, first.jobId, closesAt);
            return;
        }
        if (_time() < first.closesAt) revert StillOpen(first.closesAt);
        _end(conditions, backed.owner, number, first, Outcome.Upheld);
    }

    /// @dev Ends the first challenge of a pledge that is not decided.
    function _end(
        Conditions calldata conditions,
        address owner,
        uint256 number,
        Challenge memory first,
        Outcome outcome
    ) private {
        Pledge storage kept = _pledges[owner];
        ++kept.decided;
        delete _challenges[owner][number];
        uint256 paid = 0;
        if (outcome == Outcome.Upheld) {
            _halve(owner, conditions.charge);
        } else {
            _credit(first.challenger, conditions.charge);
            if (outcome == Outcome.Wrong) {
                isWrong[first.digest] = true;
                // SAFETY: in the order of opening, so none takes what an earlier one was opened for.
                paid = FixedPointMathLib.min(conditions.forfeit, kept.amount);
                kept.amount -= uint96(paid);
                _halve(first.challenger, paid);
            }
        }
        emit Decided(owner, number, first.jobId, outcome, paid);
    }

    // ------------------------------------------------------------------ money

    /// @dev SAFETY: half is burned, or a server could lose to itself, and challenge itself, for nothing.
    function _halve(address account, uint256 amount) private {
        _credit(account, amount / 2);
        _credit(BURNED, amount - amount / 2);
    }

    // ------------------------------------------------------------------ views

    function pledgeOf(address owner) external view returns (Pledge memory) {
        return _pledges[owner];
    }

    function challengeOf(address owner, uint256 number) external view returns (Challenge memory) {
        return _challenges[owner][number];
    }

    function digestOf(Backed calldata backed) public view returns (bytes32) {
        return _hashTypedData(keccak256(abi.encode(_BACKED, backed)));
    }

    function commitmentOf(address sender, bytes32 digest, bytes32 salt) public pure returns (bytes32) {
        return keccak256(abi.encode(sender, digest, salt));
    }

    /// @dev Returns the first challenge that is not decided, and how its job ended; reverts unless it is of this receipt.
    function _first(Conditions calldata conditions, Backed calldata backed)
        private
        view
        returns (uint256 number, Challenge memory first, JobPhase ended)
    {
        Pledge storage kept = _pledges[backed.owner];
        _check(backed.owner, kept, conditions);
        number = kept.decided;
        if (number == kept.opened) revert NothingOpen(backed.owner);
        first = _challenges[backed.owner][number];
        bytes32 digest = digestOf(backed);
        if (digest != first.digest) revert OtherReceipt(digest, first.digest);
        ended = JOBS.phaseOf(first.jobId);
        if (ended <= JobPhase.Closing) revert IJobs.JobRuns(first.jobId);
    }

    /// @dev Returns slot 0 after the accepted run of a job.
    function _writtenIn(uint256 jobId, Written calldata written) private view returns (bytes32) {
        Program memory program = JOBS.programOf(jobId);
        uint64 count = Programs.checkpoints(program.steps, program.strides[0]);
        Merkle.check(
            Hash.RUN_TREE,
            JOBS.acceptedRoot(jobId),
            written.last,
            count - 1,
            Merkle.depth(count),
            written.lastPath
        );
        bytes32 row = Hash.slot(written.node, written.output);
        Merkle.check(
            Hash.SLOT_TREE, program.slotRoot, row, 0, Merkle.depth(program.slotCount), written.slotPath
        );
        bytes32 record = Records.hash(written.record);
        uint8 levels = Merkle.depth(program.nodeCount);
        Merkle.check(Hash.STEP_TREE, written.last, record, written.node, levels, written.recordPath);
        return Records.outputOrZero(written.record, written.output);
    }

    function _terms(
        Conditions calldata conditions,
        Program calldata program,
        bytes32 file,
        string calldata uri
    ) private view returns (Terms memory) {
        return Terms({
            program: program,
            programFile: file,
            uri: uri,
            referee: REFEREE,
            slots: _SLOTS,
            stake: conditions.stake,
            lowFee: conditions.lowFee,
            highFee: conditions.highFee,
            trainPeriod: conditions.trainPeriod,
            watchPeriod: 0,
            revealPeriod: conditions.revealPeriod,
            challengePeriod: conditions.challengePeriod,
            rules: conditions.rules,
            // SAFETY: a verifier that leaves would make every challenge impossible.
            verifiers: new address[](0)
        });
    }

    function _checkOpen(
        Pledge storage kept,
        Backed calldata backed,
        bytes32 digest,
        uint256 least,
        uint256 forfeit
    ) private view {
        if (kept.amount == 0) revert NothingPledged(backed.owner);
        if (_gone(kept)) revert PledgeGone(backed.owner, kept.leavesAt);
        if (_time() > backed.until) revert ReceiptExpired(backed.until);
        if (isWrong[digest]) revert AlreadyWrong(digest);
        uint256 before = forfeit * (kept.opened - kept.decided);
        uint256 covered = FixedPointMathLib.zeroFloorSub(kept.amount, before);
        if (covered < least) revert CoveredBy(covered, least);
    }

    function _checkRipe(bytes32 commitment) private view {
        uint256 made = committedAt[commitment];
        if (made == 0) revert IJobs.NothingCommitted(0, msg.sender);
        if (block.timestamp < made + _COMMIT_AGE) revert IJobs.TooSoon(made + _COMMIT_AGE);
    }

    function _check(address owner, Pledge storage kept, Conditions calldata conditions) private view {
        bytes32 have = _hashOf(conditions);
        if (kept.conditions == 0) revert NothingPledged(owner);
        if (have != kept.conditions) revert OtherConditions(owner, have, kept.conditions);
    }

    function _gone(Pledge storage kept) private view returns (bool) {
        return kept.leavesAt != 0 && _time() >= kept.leavesAt;
    }

    function _hashOf(Conditions calldata conditions) private pure returns (bytes32) {
        return keccak256(abi.encode(conditions));
    }

    function _domainNameAndVersion() internal pure override returns (string memory, string memory) {
        return ("Assay Pledge", "1");
    }
}
