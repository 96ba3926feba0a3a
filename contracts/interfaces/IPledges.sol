// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IEscrow} from "./IEscrow.sol";
import {IJobs} from "./IJobs.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";
import {Program, Rules} from "./JobTypes.sol";

/// @notice What a server pledges, and the job that a challenge of one of its receipts posts. Wei and seconds.
struct Conditions {
    /// @dev The key of the receipts.
    address signer;
    /// @dev What one receipt that is shown wrong costs the pledge.
    uint96 forfeit;
    /// @dev What a challenge costs that shows nothing wrong: half of it is for the server's trouble.
    uint96 charge;
    /// @dev Seconds between the announcement that the pledge leaves, and its leaving.
    uint32 notice;
    // The terms of the job, as in Terms; it has 16 slots, no watch period, no reward and no verifiers.
    uint256 stake;
    uint64 lowFee;
    uint64 highFee;
    uint32 trainPeriod;
    uint32 revealPeriod;
    uint32 challengePeriod;
    Rules rules;
}

/// @notice The part of a receipt that its server's key signs for this contract: EIP-712 typed data.
struct Backed {
    /// @dev The account whose pledge is behind it.
    address owner;
    /// @dev The receipt's id.
    bytes32 answer;
    /// @dev Program hash of the answer's run, and SHA-256 of the program file.
    bytes32 program;
    bytes32 file;
    /// @dev TENSOR hash of slot 0 after the run: the tokens of prompt and answer.
    bytes32 written;
    /// @dev The last second in which the receipt can be challenged.
    uint64 until;
}

/// @notice What a run has written: slot 0 after its last step, under a run root.
struct Written {
    /// @dev Checkpoint `C_n`, and the path that proves it to be the last leaf of the run tree.
    bytes32 last;
    bytes32[] lastPath;
    /// @dev The slot table's row of slot 0, with its path.
    uint32 node;
    uint8 output;
    bytes32[] slotPath;
    /// @dev That node's record, with its path in the step tree of `C_n`.
    Record record;
    bytes32[] recordPath;
}

/// @notice A pledge as it is stored.
struct Pledge {
    /// @dev Hash of its conditions, which never change; zero if there is no pledge.
    bytes32 conditions;
    // ---
    uint96 amount;
    /// @dev The instant from which no receipt can be challenged; zero while the pledge stays.
    uint40 leavesAt;
    /// @dev Numbers of challenges, and of those that are decided. INVARIANT: they are decided in this order.
    uint48 opened;
    uint48 decided;
}

/// @notice A challenge that is not decided.
struct Challenge {
    address challenger;
    uint56 jobId;
    /// @dev The instant from which it is overdue, or will be; zero until somebody says that nobody decides it.
    uint40 closesAt;
    // ---
    /// @dev The typed data that is challenged, by its hash.
    bytes32 digest;
}

/// @notice How a challenge ended.
enum Outcome {
    /// @dev The job accepted what the receipt says, or nothing; or nobody has shown what it accepted.
    Upheld,
    /// @dev The job accepted something else.
    Wrong,
    /// @dev The same, but an earlier challenge had shown that already.
    Repeated
}

/// @title IPledges
/// @notice Ether behind the receipts of a server. A challenge posts an ordinary job of the run that the receipt names;
/// the root that Jobs accepts decides.
///
///     nothing ─pledge─▶ pledged ─giveNotice─▶ leaving ─(notice)─▶ ─reclaim─▶ nothing
///                         ▲────────pledge───────┘
///     challenge k:  open ─(its job ends, challenges before k are decided)─▶ decide
///
/// Nobody is a party of the job by being named here: the server, the challenger and anybody else claim in it as in any
/// job (IJobs). So a server that is silent where somebody claims another result loses; a challenger that claims
/// nothing loses its charge.
///
/// PROMISES
/// - If Jobs accepts right roots only, a server that signs right receipts loses nothing of its pledge.
/// - A receipt that is shown wrong costs the pledge its forfeit once, half of it burned; no challenge costs more.
/// - Anybody finds a place: the number of challenges is not limited, and they are paid in the order of their opening.
/// - Conditions never change, and the pledge stays for the notice at least.
/// - To keep everybody from the slots of a challenge's job costs its owner a forfeit at least, each time.
/// - Balance = credits + pledges + charges of open challenges. No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: whoever accepts a receipt looks at the conditions, at what is pledged, and at `until`.
interface IPledges is IEscrow, ITimed {
    // ------------------------------------------------------------------ events

    /// @notice Ether is pledged; `amount` is that of the pledge now.
    event Pledged(address indexed owner, address indexed signer, uint256 amount, Conditions conditions);
    event Leaving(address indexed owner, uint64 leavesAt);
    event Reclaimed(address indexed owner, uint256 amount);
    event Committed(bytes32 indexed commitment);
    /// @notice Challenge `number` of a pledge; `jobId` is its job, posted with the program file `backed.file`.
    event Challenged(
        address indexed owner,
        uint256 indexed number,
        uint256 indexed jobId,
        address challenger,
        Backed backed
    );
    /// @notice The job of a challenge has accepted a root, and nobody has shown yet what that run has written.
    event Undecided(address indexed owner, uint256 indexed number, uint256 indexed jobId, uint64 closesAt);
    /// @notice A challenge is decided; `paid` is what the pledge paid, half of it burned.
    event Decided(
        address indexed owner, uint256 indexed number, uint256 indexed jobId, Outcome outcome, uint256 paid
    );

    // ------------------------------------------------------------------ errors

    error BadConditions();
    /// @notice To take a slot of a challenge's job and give it back costs `fee`: less than a charge, or less in all slots
    /// than a forfeit.
    error StakeTooLow(uint256 fee);
    /// @notice The sender's pledge has other conditions, and conditions never change.
    error OtherConditions(address owner, bytes32 have, bytes32 want);
    error PledgeTooSmall(uint256 have, uint256 want);
    error NothingPledged(address owner);
    error AlreadyLeaving(address owner, uint64 leavesAt);
    /// @notice The pledge stays, or its notice runs until `leavesAt`.
    error StillPledged(address owner, uint64 leavesAt);
    error ChallengesOpen(address owner, uint256 count);
    /// @notice The receipt is not signed by the pledge's signer, for this contract on this chain.
    error NotSigned(address have, address want);
    error ReceiptExpired(uint64 until);
    error PledgeGone(address owner, uint64 leavesAt);
    error AlreadyWrong(bytes32 digest);
    error WrongCharge(uint256 have, uint256 want);
    /// @notice Apart from what the open challenges before may take, less is pledged than the challenger wants.
    error CoveredBy(uint256 have, uint256 least);
    error OtherProgram(bytes32 have, bytes32 want);
    /// @notice The next challenge to decide is about another receipt.
    error OtherReceipt(bytes32 have, bytes32 want);
    error NothingOpen(address owner);
    /// @notice Until then what the accepted run has written can be shown.
    error StillOpen(uint64 closesAt);
    /// @notice Where nothing was accepted, nothing has to be shown: `decide`.
    error NothingAccepted(uint256 jobId);

    // ------------------------------------------------------------------ moves

    /// @notice Pledges the value, at least one forfeit the first time. Pledging again adds to it, and the pledge stays.
    function pledge(Conditions calldata conditions) external payable;

    /// @notice Announces that the sender's pledge leaves.
    function giveNotice(Conditions calldata conditions) external;

    /// @notice After the notice, with no challenge open: credits the sender with its pledge.
    function reclaim() external;

    /// @notice Commits to a challenge, `commitmentOf`. Made again, a commitment keeps its age.
    function commit(bytes32 commitment) external;

    /// @notice Challenges a receipt, to which the sender committed at least `COMMIT_AGE` of Jobs seconds ago: posts the
    /// job of its run. The value covers the charge; the excess is credited.
    /// @param least What must be pledged apart from the forfeits of the challenges that are open, in wei.
    function challenge(
        Conditions calldata conditions,
        Backed calldata backed,
        bytes calldata signature,
        Program calldata program,
        string calldata uri,
        uint256 least,
        bytes32 salt
    ) external payable returns (uint256 jobId);

    /// @notice Decides the first challenge of a pledge that is not decided, once its job is over. Anybody may call it.
    /// @param written What the accepted run has written; ignored if the job accepted nothing.
    function decide(Conditions calldata conditions, Backed calldata backed, Written calldata written) external;

    /// @notice Closes the first challenge that is not decided, because its job has accepted a root and nobody shows what
    /// that run has written: the first call begins a challenge period, the second one ends it. Anybody may call it.
    /// @dev SAFETY: a root that nobody disputed may be of no run at all, and would hold up all challenges behind it.
    function close(Conditions calldata conditions, Backed calldata backed) external;

    // ------------------------------------------------------------------ views

    function JOBS() external view returns (IJobs);

    /// @notice The referee of every job that is posted here.
    function REFEREE() external view returns (address);

    function pledgeOf(address owner) external view returns (Pledge memory);

    /// @notice Returns challenge `number` of a pledge; zeros once it is decided.
    function challengeOf(address owner, uint256 number) external view returns (Challenge memory);

    /// @notice Returns whether this receipt was shown wrong.
    function isWrong(bytes32 digest) external view returns (bool);

    /// @notice Returns the hash of a receipt's typed data.
    function digestOf(Backed calldata backed) external view returns (bytes32);

    function commitmentOf(address sender, bytes32 digest, bytes32 salt) external pure returns (bytes32);

    /// @notice Returns the second of the chain in which a commitment was first made; zero if it was not.
    function committedAt(bytes32 commitment) external view returns (uint256);
}
