// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Shape} from "../commit/Tensors.sol";
import {IEscrow} from "./IEscrow.sol";
import {IJobs} from "./IJobs.sol";
import {Record} from "./IReferee.sol";
import {ITimed} from "./ITimekeeper.sol";

/// @notice The kinds of data that can be requested.
enum Piece {
    /// @dev The digests of the rounding logs of 256 nodes in one step.
    Digests,
    /// @dev The entries of one of these logs for 8 blocks of elements.
    Blocks,
    /// @dev The record of a node in a checkpoint of the claimed run.
    Record,
    /// @dev 1 KiB of a tensor that such a record names.
    Leaf
}

/// @notice The job and the root that a request is about.
struct Subject {
    IJobs jobs;
    uint256 jobId;
    /// @dev The root of the job's logs for Digests and Blocks; a claimed root for Record and Leaf.
    bytes32 root;
}

/// @notice The location of a piece under the root, in numbers: anybody with the tree has the piece, or knows that there
/// is none. Fields that a piece does not need are zero.
struct Place {
    Piece piece;
    /// @dev For logs the step, counted from 1; for records and leaves the checkpoint, counted from 0.
    uint64 tree;
    /// @dev For Digests the page of 256 nodes; for other pieces the node.
    uint32 node;
    /// @dev For Leaf: `k` for input `k`, `256 + k` for output `k`.
    uint16 tensor;
    /// @dev For Blocks the page of 8 blocks; for Leaf the leaf.
    uint64 part;
}

/// @notice The root of a step's log tree, with its path under the root of the run's logs.
struct StepProof {
    bytes32 root;
    bytes32[] path;
}

/// @notice A log with some of its blocks. If `log` is zero (the node has none), `elements` and `root` are ignored.
struct LogPiece {
    /// @dev The log's digest, with its path under the step's log tree.
    bytes32 log;
    bytes32[] logPath;
    StepProof step;
    /// @dev The preimage of the digest: the number of elements, and the root of the log's block tree.
    uint64 elements;
    bytes32 root;
    /// @dev All blocks of the page, with the path of the page; empty if the log has no such page.
    bytes[] blocks;
    bytes32[] path;
}

/// @notice A record, with its path to the claimed root.
struct RecordPiece {
    Record record;
    bytes32[] recordPath;
    bytes32 checkpoint;
    bytes32[] checkpointPath;
}

/// @notice A tensor with one of its leaves; `leaf` and `path` are empty if the tensor has no such leaf.
struct TensorPiece {
    Shape shape;
    bytes32 root;
    bytes leaf;
    bytes32[] path;
}

/// @notice The state of a request.
enum RequestState {
    None,
    Open,
    /// @dev Final: a place that was answered is not requested again.
    Answered
}

struct DataRequest {
    address requester;
    /// @dev The last second at which an answer is in time. NOTE: 40 bits, so that a request fits these words.
    uint40 until;
    /// @dev The price of a unit of gas, in thousands of wei, rounded up: `IJobs.feeOf` when the request was made.
    uint32 price;
    /// @dev The life of the root (`IJobs.standing`) in which the request was made; zero for logs. INVARIANT: at most
    /// 112, because each further life begins with a claim that costs twice the one before.
    uint8 life;
    RequestState state;
    /// @dev Number of times that its deposit is doubled.
    uint8 rank;
}

/// @title IDataAvailability
/// @notice A party that is not served the data behind a claim requests it here, piece by piece, for a fee that pays the
/// publisher. Data that nobody publishes in time is withheld: a claimed root then loses all its claims; if the data is
/// of the run's logs, the job ends void.
///
/// PROMISES
/// - A party that has the run behind a root, with the logs that the run follows, can answer every request about it,
///   whichever place it names, in one transaction each, of at most 100,000 bytes and 12 million gas.
/// - Such a party has the time: a verdict period for each checkpoint that is open under the root, and for each piece
///   the time to send it after all others, at 100,000 bytes per minute.
/// - A requester cannot keep others from requesting, but by money: each open checkpoint and every 64 open pieces double
///   the deposit. Only beyond 15 doublings or 512 open pieces does a request have to wait.
/// - An answer is what the root commits to, in a form that can be read; anybody may give it.
/// - The author of an answer is paid its cost in gas, at the job's price of gas when the request was made. Of the part
///   of a deposit above that of a first request, half is burned at the answer. The rest returns to the requester; all
///   of it, if nobody answers.
/// - A place under a root is requested at most once, unless the claims of that root are lost.
/// - Requests delay the end of a job only within the bounds of `IJobs.extend`.
/// - Balance = credits + deposits of open requests. No owner, no upgrade.
///
/// ASSUMPTIONS
/// - SAFETY: any Jobs contract may be named. A malicious one harms only those who request data of its jobs.
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
    /// @notice A request ends without an answer. If `lost`, the root or the job loses by it; otherwise the claims had
    /// been lost before, or the job was over.
    event Closed(uint256 indexed jobId, address indexed jobs, bytes32 root, Place place, bool lost);

    // ------------------------------------------------------------------ errors

    error NothingRequested();
    error TooManyPlaces(uint256 have, uint256 most);
    /// @notice Too many open pieces under the root, or too many other checkpoints. The sender has to wait.
    error TooManyOpen(uint256 open, uint256 checkpoints);
    error WrongDeposit(uint256 have, uint256 want);
    /// @notice The program has no such place.
    error NoSuchPlace(uint256 number, uint256 count);
    /// @notice The job has no such logs: its mode has none, or their root is another one.
    error NoSuchLogs(bytes32 root);
    /// @notice This root has no claim that is not lost.
    error NotClaimed(bytes32 root);
    /// @notice Records and leaves of one call must be of one checkpoint.
    error AnotherCheckpoint(uint64 have, uint64 want);
    error NoSuchRequest();
    error WrongPiece(Piece have, Piece want);
    error ResponseLate(uint256 until);
    error NotLate(uint256 until);
    /// @notice No log can have such a block.
    error Unreadable(uint256 number);
    error WrongBlockCount(uint256 have, uint256 want);
    error WrongDigest(bytes32 have, bytes32 want);
    error WrongLeafLength(uint256 have, uint256 want);
    /// @notice There is nothing at the place, but the answer shows something.
    error NothingThere();

    // ------------------------------------------------------------------ moves

    // An answer to a place that has been answered changes nothing.

    /// @notice Challenge, or Closing before the `until` of the root's group: requests these places, all under one root,
    /// and of one checkpoint. The value covers their deposits; the excess is credited. A place that is open or was
    /// answered is skipped, at no cost; a request from a former life of the root is closed first.
    function request(Subject calldata subject, Place[] calldata places) external payable;

    /// @notice Publishes all digests of the page: as many leaves as the tree has, at most 256.
    function provideDigests(
        Subject calldata subject,
        Place calldata place,
        bytes32[] calldata digests,
        bytes32[] calldata path,
        StepProof calldata step
    ) external;

    /// @notice Publishes the blocks of the page, or shows that the log has none there, or that there is no log.
    function provideBlocks(Subject calldata subject, Place calldata place, LogPiece calldata response)
        external;

    function provideRecord(Subject calldata subject, Place calldata place, RecordPiece calldata response)
        external;

    /// @notice Publishes the leaf, or shows that the tensor has no such leaf, or that the record has no such tensor.
    function provideLeaf(
        Subject calldata subject,
        Place calldata place,
        RecordPiece calldata response,
        TensorPiece calldata tensor
    ) external;

    /// @notice Ends a request that is late, whose root was lost meanwhile or whose job is over. Returns the deposit.
    function close(Subject calldata subject, Place calldata place) external;

    // ------------------------------------------------------------------ views

    /// @notice Returns the deposit of a first request for this piece, in wei: the highest fee of an answer.
    /// @param price Wei for a unit of gas.
    function depositOf(Piece piece, uint256 price) external view returns (uint256);

    /// @notice Returns the deposit of a request of this rank, in wei. The rank grows by one for each other checkpoint
    /// that is open under the root, and for every 64 open pieces.
    function depositAt(Piece piece, uint256 rank, uint256 price) external view returns (uint256);

    /// @notice Returns how many pieces are open under the root, and of how many checkpoints besides the place's.
    function openOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (uint256 open, uint256 others);

    function requestOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (DataRequest memory);

    /// @notice Returns the number of open requests for the job's logs, and for this root in that life, together.
    function pending(IJobs jobs, uint256 jobId, bytes32 logs, bytes32 root, uint32 life)
        external
        view
        returns (uint256);
}
