// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Shape} from "../commit/Tensors.sol";
import {IEscrow} from "./IEscrow.sol";
import {IJobs} from "./IJobs.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

/// @notice What can be requested.
enum Piece {
    /// @dev The digests of the rounding logs of 256 nodes in one step.
    Digests,
    /// @dev What one of these logs says of 8 blocks of elements.
    Blocks,
    /// @dev The record of a node in a checkpoint that the claimed root is of.
    Record,
    /// @dev 1 KiB of a tensor that such a record names.
    Leaf
}

/// @notice What a request is about.
struct Subject {
    IJobs jobs;
    uint256 jobId;
    /// @dev The root of the job's logs for the first two pieces; a claimed root for the others.
    bytes32 root;
}

/// @notice Where under the root the piece is. Places are by number, so whoever has the tree has what is there, and knows what is
/// not; fields that a piece does not need are zero.
struct Place {
    Piece piece;
    /// @dev Of logs the step, counted from 1; of records the checkpoint, counted from 0.
    uint64 tree;
    /// @dev Of digests the page of 256 nodes.
    uint32 node;
    /// @dev An input `k`, or an output as `256 + k`.
    uint16 tensor;
    /// @dev The page of 8 blocks, or the leaf.
    uint64 part;
}

/// @notice The log tree of a step, under the root of the run's logs.
struct StepProof {
    bytes32 root;
    bytes32[] path;
}

/// @notice A log with some of its blocks. If the log is zero (there is none), what describes it is ignored.
struct LogPiece {
    /// @dev The digest, with its path under the step's log tree.
    bytes32 log;
    bytes32[] logPath;
    StepProof step;
    /// @dev What the digest is of.
    uint64 elements;
    bytes32 root;
    /// @dev All blocks of the page and the page's path, or nothing if the log has no such page.
    bytes[] blocks;
    bytes32[] path;
}

/// @notice A record, under the claimed root.
struct RecordPiece {
    Record record;
    bytes32[] recordPath;
    bytes32 checkpoint;
    bytes32[] checkpointPath;
}

/// @notice A tensor with one of its leaves; nothing of the leaf if the tensor has no such one.
struct TensorPiece {
    Shape shape;
    bytes32 root;
    bytes leaf;
    bytes32[] path;
}

/// @notice Where a request stands.
enum RequestState {
    None,
    Open,
    /// @dev For good: what has been published once is not requested again.
    Answered
}

struct DataRequest {
    address requester;
    /// @dev The last second in which an answer is in time. NOTE: 40 bits, so that a request is one word.
    uint40 until;
    /// @dev What a unit of gas counts for, in thousands of wei, rounded up: `IJobs.feeOf` when it was made.
    uint32 price;
    /// @dev Which life of the root it was made in (`IJobs.standing`); zero for logs. INVARIANT: another life begins with a claim
    /// that costs twice what the one before did, so there are at most 112.
    uint8 life;
    RequestState state;
    /// @dev How often its deposit is doubled.
    uint8 rank;
}

/// @title IDataAvailability
/// @notice Whoever is not served what a claim commits to requests it here, for a fee that pays whoever publishes it. What nobody
/// publishes in time is lost: a claimed root with all who claim it, or, if it is of the run's logs, the job.
///
/// PROMISES
/// - Whoever has the run that a root claims, with the logs that it went by, can answer every request about it, in one
///   transaction each, whatever place the request names: of 100,000 bytes and 12 million gas at most.
/// - He has the time: for each checkpoint that is open under the root a verdict period, and for each piece what it takes to send
///   it after all others, at 100,000 bytes a minute.
/// - Nobody is kept from requesting: while others are open a request is dearer, and twice as dear for each checkpoint or 64 pieces.
/// - An answer is what the root commits to, in a form that can be read; anybody may give it.
/// - What an answer costs in gas, at what gas counts for in the job when it is requested, its author is paid. Of what a deposit was more than that of a first
///   request, half is burned when it is answered. The rest of the deposit is the requester's; all of it, if nobody answers.
/// - A place is requested at most once under a root, unless its claimants are lost.
/// - DataAvailability do not keep a job from ending: see `IJobs.extend`.
/// - Balance = credits + deposits of open dataAvailability. No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: any Jobs contract may be named. A malicious one hurts those who request of it, and nobody else.
interface IDataAvailability is IEscrow, ITimed {
    // ------------------------------------------------------------------ events

    event Requested(
        uint256 indexed jobId,
        address indexed jobs,
        bytes32 root,
        Place place,
        address requester,
        uint32 life,
        uint64 until,
        uint8 rank,
        uint64 price
    );
    event DigestsProvided(
        uint256 indexed jobId,
        address indexed jobs,
        bytes32 root,
        Place place,
        address author,
        bytes32[] digests,
        bytes32[] path,
        StepProof step
    );
    event BlocksProvided(
        uint256 indexed jobId,
        address indexed jobs,
        bytes32 root,
        Place place,
        address author,
        LogPiece response
    );
    event RecordProvided(
        uint256 indexed jobId,
        address indexed jobs,
        bytes32 root,
        Place place,
        address author,
        RecordPiece response
    );
    event LeafProvided(
        uint256 indexed jobId,
        address indexed jobs,
        bytes32 root,
        Place place,
        address author,
        RecordPiece response,
        TensorPiece tensor
    );
    /// @notice A request is over without an answer: what it was about is lost, or was lost already.
    event Closed(uint256 indexed jobId, address indexed jobs, bytes32 root, Place place, bool lost);

    // ------------------------------------------------------------------ errors

    error NothingRequested();
    error TooManyPlaces(uint256 have, uint256 most);
    /// @notice So many pieces are open under the root, and so many checkpoints besides this one. One has to wait for answers.
    error TooManyOpen(uint256 open, uint256 checkpoints);
    error WrongDeposit(uint256 have, uint256 want);
    /// @notice The program has no such place.
    error NoSuchPlace(uint256 number, uint256 count);
    /// @notice The job has no such logs: its mode has none, or they have another root.
    error NoSuchLogs(bytes32 root);
    /// @notice Nobody who has not lost claims this root.
    error NotClaimed(bytes32 root);
    /// @notice Records and leaves of one checkpoint can be requested in one call.
    error AnotherCheckpoint(uint64 have, uint64 want);
    error NoSuchRequest();
    error WrongPiece(Piece have, Piece want);
    error ResponseLate(uint256 until);
    error NotLate(uint256 until);
    /// @notice A log can have no such block.
    error Unreadable(uint256 number);
    error WrongBlockCount(uint256 have, uint256 want);
    error WrongDigest(bytes32 have, bytes32 want);
    error WrongLeafLength(uint256 have, uint256 want);
    /// @notice The place has no such thing, and something is shown of it.
    error NothingThere();

    // ------------------------------------------------------------------ moves

    // An answer to what was answered changes nothing.

    /// @notice Challenge: requests these places, all under one root, and of one checkpoint; the value covers their deposits, and what
    /// is more is credited. A place that is open or was answered is passed over, and costs nothing; one that is open since a former
    /// life of the root is closed first.
    function request(Subject calldata subject, Place[] calldata places) external payable;

    /// @notice The digests of the page: as many leaves as the tree has, 256 at most.
    function provideDigests(
        Subject calldata subject,
        Place calldata place,
        bytes32[] calldata digests,
        bytes32[] calldata path,
        StepProof calldata step
    ) external;

    /// @notice The blocks of the page, or that the log has none there, or that there is no log.
    function provideBlocks(Subject calldata subject, Place calldata place, LogPiece calldata response)
        external;

    function provideRecord(Subject calldata subject, Place calldata place, RecordPiece calldata response)
        external;

    /// @notice The leaf, or that the tensor has no such leaf, or that the record has no such tensor.
    function provideLeaf(
        Subject calldata subject,
        Place calldata place,
        RecordPiece calldata response,
        TensorPiece calldata tensor
    ) external;

    /// @notice Ends a request that nobody has answered in time, or whose root was lost meanwhile. The deposit is the requester's.
    function close(Subject calldata subject, Place calldata place) external;

    // ------------------------------------------------------------------ views

    /// @notice What a first request of this piece costs at most, in wei, at so many wei for a unit of gas.
    function depositOf(Piece piece, uint256 price) external view returns (uint256);

    /// @notice The deposit of a request of this rank: one for each other checkpoint that is open under the root, and one for every
    /// 64 open pieces.
    function depositAt(Piece piece, uint256 rank, uint256 price) external view returns (uint256);

    /// @notice Pieces that are open under the root, and how many checkpoints besides the place's they are of.
    function openOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (uint256 open, uint256 others);

    function requestOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (DataRequest memory);

    /// @notice DataAvailability that are open: of the job's logs, and of this root in that life.
    function pending(IJobs jobs, uint256 jobId, bytes32 logs, bytes32 root, uint32 life)
        external
        view
        returns (uint256);
}
