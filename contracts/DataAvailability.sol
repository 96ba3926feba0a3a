// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Escrow} from "./Escrow.sol";
import {Timed} from "./Timed.sol";
import {Pieces} from "./availability/Pieces.sol";
import {Modes} from "./commit/Modes.sol";
import {Programs} from "./commit/Programs.sol";
import {
    DataRequest,
    IDataAvailability,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    RequestState,
    StepProof,
    Subject,
    TensorPiece
} from "./interfaces/IDataAvailability.sol";
import {IJobs} from "./interfaces/IJobs.sol";
import {ITimekeeper} from "./interfaces/ITimekeeper.sol";
import {JobPhase, Program, Rules} from "./interfaces/JobTypes.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {Multicallable} from "solady/utils/Multicallable.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title DataAvailability
/// @notice See IDataAvailability. The checks of an answer are in `availability/Pieces`.
///
///     none ─request─▶ open ─answer─▶ answered
///      ▲              │close: late, or lost already
///      └──────────────┘
/// @dev NOTE: `multicall` is not payable, so it batches only answers and closings; `request` takes many places.
contract DataAvailability is IDataAvailability, Escrow, Timed, Multicallable {
    // ------------------------------------------------------------------ types

    /// @dev The open requests about one root, in one life of its group.
    struct OpenRequests {
        /// @dev Logs: the instant from which extensions count, the first request plus the time waited for pages.
        uint64 start;
        /// @dev Logs: the instant up to which that time is counted, and the most that may still be counted.
        uint64 since;
        uint64 wait;
        uint32 open;
        /// @dev Records: the number of checkpoints that the open ones are of.
        uint32 checkpoints;
    }

    // ------------------------------------------------------------------ storage

    /// @notice Gas of an answer: a transaction of its own, two or three trees walked, two slots written, an event.
    /// Measured in tests/contracts/availability/RequestGas.t.sol.
    uint256 public constant ANSWER_GAS = 150_000;
    /// @notice Gas of a byte of calldata, hashed, read and logged; measured there, too.
    uint256 public constant BYTE_GAS = 80;
    /// @notice More than a whole page of digests, a record with 255 inputs, or a leaf, with their paths.
    uint256 private constant MAX_BYTES = 13_312;
    /// @notice 8 blocks of 6,144 bytes, with their paths.
    uint256 private constant MAX_BLOCK_BYTES = 53_088;
    /// @notice Seconds that one more open piece adds: a party that sends 100,000 bytes per minute sends seven of the
    /// longest records and leaves in it, or one page of blocks.
    uint256 private constant RECORD_SECONDS = 10;
    uint256 private constant LOG_SECONDS = 60;

    /// @notice Places of one call: some 34,000 gas each, and 120,000 where new words are as dear as by EIP-8037.
    uint256 public constant MAX_PLACES = 96;
    /// @notice Pieces that may be open under a root. NOTE: `DataAvailabilityHook.LISTS` follows from it.
    uint256 public constant MAX_OPEN = 512;
    /// @notice A deposit doubles with every other open checkpoint under the root, and with this many open pieces.
    uint256 public constant STEP = 64;
    /// @notice Number of times that a deposit can double.
    uint256 public constant MAX_RANK = 15;
    /// @notice Unit of a request's price, in wei.
    uint256 private constant UNIT = 1_000;
    /// @notice With this many open pages of logs time counts as waited. SAFETY: with fewer, an attacker that requests a
    /// page whenever the one before is answered could delay the end for the gas of one page a block. A party that needs
    /// fewer pages waits for one response only.
    uint256 private constant CROWD = 32;

    mapping(bytes32 id => DataRequest) private _requests;
    mapping(bytes32 key => OpenRequests) private _queues;
    /// @dev Number of open pieces of a checkpoint.
    mapping(bytes32 key => mapping(uint64 checkpoint => uint256)) private _open;

    // ------------------------------------------------------------------ constructor

    constructor(ITimekeeper keeper) Timed(keeper) {}

    // ------------------------------------------------------------------ moves

    function request(Subject calldata subject, Place[] calldata places) external payable nonReentrant {
        if (places.length == 0) revert NothingRequested();
        if (places.length > MAX_PLACES) revert TooManyPlaces(places.length, MAX_PLACES);
        bool ofLogs = _ofLogs(places[0].piece);
        Program memory program = subject.jobs.programOf(subject.jobId);
        uint32 life = ofLogs ? _checkLogs(subject, program) : _checkClaimed(subject);
        bytes32 key = _key(subject.jobs, subject.jobId, subject.root, life);
        OpenRequests storage requests = _queues[key];

        uint256 others = _others(key, requests, places[0]);
        (Rules memory rules,) = subject.jobs.rulesOf(subject.jobId);
        // SAFETY: a trainer has its logs on disk, but a claimant recomputes a record from its checkpoint. So each other
        // open checkpoint gives a whole period more: a claimant that takes them one after the other is never late.
        uint256 from = _time() + (others + 1) * rules.verdictPeriod;
        uint256 each = ofLogs ? LOG_SECONDS : RECORD_SECONDS;
        uint256 price = FixedPointMathLib.divUp(subject.jobs.feeOf(subject.jobId), UNIT);
        if (ofLogs) _wait(requests);
        (uint64 until, uint256 deposit) = (0, 0);
        for (uint256 i = 0; i < places.length; ++i) {
            Place calldata place = places[i];
            if (_ofLogs(place.piece) != ofLogs) revert WrongPiece(place.piece, places[0].piece);
            if (!ofLogs && place.tree != places[0].tree) {
                revert AnotherCheckpoint(place.tree, places[0].tree);
            }
            _checkPlace(program, place);
            bytes32 id = _id(subject, place);
            DataRequest storage d = _requests[id];
            // NOTE: if all earlier claims of a root were lost, a new claimant does not answer for requests to those.
            if (d.state == RequestState.Open && d.life != life) _drop(subject, place, id, d, false);
            // NOTE: skipped, so that nobody spoils another's batch by requesting one of its places first.
            if (d.state != RequestState.None) continue;
            uint256 rank = others + requests.open / STEP;
            if (rank > MAX_RANK || requests.open >= MAX_OPEN) revert TooManyOpen(requests.open, others);
            // SAFETY: a party that answers one piece after the other, in the order of the requests, is never late.
            until = uint64(from + requests.open * each);
            // SAFETY: a party that follows the run by these pages is in time, even if 64 at a time come at the last
            // second.
            if (ofLogs) requests.wait += uint64(LOG_SECONDS + rules.verdictPeriod / STEP);
            (d.requester, d.until, d.price) = (msg.sender, uint40(until), SafeCastLib.toUint32(price));
            (d.life, d.state, d.rank) = (SafeCastLib.toUint8(life), RequestState.Open, uint8(rank));
            deposit += depositAt(place.piece, rank, price * UNIT);
            _add(key, requests, place);
            emit Requested(
                subject.jobId,
                address(subject.jobs),
                subject.root,
                place,
                msg.sender,
                life,
                until,
                uint8(rank),
                uint64(price * UNIT)
            );
        }
        // SAFETY: the reentrancy guard spans the call.
        if (until != 0) subject.jobs.extend(subject.jobId, subject.root, requests.start, until);
        if (msg.value < deposit) revert WrongDeposit(msg.value, deposit);
        _prepare(msg.sender);
        _credit(msg.sender, msg.value - deposit);
    }

    function provideDigests(
        Subject calldata subject,
        Place calldata place,
        bytes32[] calldata digests,
        bytes32[] calldata path,
        StepProof calldata step
    ) external {
        if (!_isDue(subject, place, Piece.Digests)) return;
        Program memory program = subject.jobs.programOf(subject.jobId);
        uint256 size = Pieces.checkDigests(program, subject.root, place, digests, path, step);
        _answered(subject, place, size);
        emit DigestsProvided(
            subject.jobId, address(subject.jobs), subject.root, place, msg.sender, digests, path, step
        );
    }

    function provideBlocks(Subject calldata subject, Place calldata place, LogPiece calldata response)
        external
    {
        if (!_isDue(subject, place, Piece.Blocks)) return;
        Program memory program = subject.jobs.programOf(subject.jobId);
        _answered(subject, place, Pieces.checkBlocks(program, subject.root, place, response));
        emit BlocksProvided(subject.jobId, address(subject.jobs), subject.root, place, msg.sender, response);
    }

    function provideRecord(Subject calldata subject, Place calldata place, RecordPiece calldata response)
        external
    {
        if (!_isDue(subject, place, Piece.Record)) return;
        Program memory program = subject.jobs.programOf(subject.jobId);
        _answered(subject, place, Pieces.checkRecord(program, subject.root, place, response));
        emit RecordProvided(subject.jobId, address(subject.jobs), subject.root, place, msg.sender, response);
    }

    function provideLeaf(
        Subject calldata subject,
        Place calldata place,
        RecordPiece calldata response,
        TensorPiece calldata tensor
    ) external {
        if (!_isDue(subject, place, Piece.Leaf)) return;
        Program memory program = subject.jobs.programOf(subject.jobId);
        uint256 size = Pieces.checkRecord(program, subject.root, place, response);
        size += Pieces.checkLeaf(place, response.record, tensor);
        _answered(subject, place, size);
        emit LeafProvided(
            subject.jobId, address(subject.jobs), subject.root, place, msg.sender, response, tensor
        );
    }

    function close(Subject calldata subject, Place calldata place) external nonReentrant {
        bytes32 id = _id(subject, place);
        DataRequest storage d = _requests[id];
        if (d.state != RequestState.Open) revert NoSuchRequest();
        bool moot = subject.jobs.phaseOf(subject.jobId) > JobPhase.Closing;
        if (!moot && !_ofLogs(place.piece)) {
            // NOTE: if all earlier claims of a root were lost, a new claimant does not answer for requests to those.
            (uint32 life, bool claimed) = subject.jobs.standing(subject.jobId, subject.root);
            moot = !claimed || life != d.life;
        }
        if (!moot && _time() <= d.until) revert NotLate(d.until);

        address requester = d.requester;
        _drop(subject, place, id, d, !moot);
        // SAFETY: the reentrancy guard spans the call.
        if (moot) return;
        subject.jobs.forfeit(subject.jobId, subject.root, _ofLogs(place.piece), requester);
    }

    // ------------------------------------------------------------------ inside

    /// @dev Returns how many checkpoints are open besides the place's.
    function _others(bytes32 key, OpenRequests storage requests, Place calldata place)
        private
        view
        returns (uint256)
    {
        if (_ofLogs(place.piece) || _open[key][place.tree] == 0) return requests.checkpoints;
        return requests.checkpoints - 1;
    }

    function _add(bytes32 key, OpenRequests storage requests, Place calldata place) private {
        ++requests.open;
        if (_ofLogs(place.piece)) return;
        if (_open[key][place.tree]++ == 0) ++requests.checkpoints;
    }

    /// @dev Counts the time in which `CROWD` pages of logs were open. SAFETY: it counts time, not pages: otherwise an
    /// attacker that requests pages and answers them at once could delay the end for their gas.
    function _wait(OpenRequests storage requests) private {
        uint64 now_ = uint64(_time());
        if (requests.start == 0) requests.start = now_;
        if (requests.open >= CROWD) {
            uint64 waited = now_ - requests.since;
            if (waited > requests.wait) waited = requests.wait;
            requests.start += waited;
            requests.wait -= waited;
        }
        requests.since = now_;
    }

    /// @dev Ends a request without an answer: its deposit is returned, and the place can be requested again.
    function _drop(
        Subject calldata subject,
        Place calldata place,
        bytes32 id,
        DataRequest storage d,
        bool lost
    ) private {
        _remove(subject, place, d.life);
        emit Closed(subject.jobId, address(subject.jobs), subject.root, place, lost);
        _credit(d.requester, depositAt(place.piece, d.rank, d.price * UNIT));
        delete _requests[id];
    }

    function _remove(Subject calldata subject, Place calldata place, uint32 life) private {
        bytes32 key = _key(subject.jobs, subject.jobId, subject.root, life);
        OpenRequests storage requests = _queues[key];
        if (_ofLogs(place.piece)) {
            _wait(requests);
            if (--requests.open == 0) requests.wait = 0;
            return;
        }
        --requests.open;
        if (--_open[key][place.tree] == 0) --requests.checkpoints;
    }

    /// @dev Begins every answer: checks that there is such a request, and that it is in time. False if it was answered.
    /// NOTE: a second answer changes nothing, so nobody spoils a batch of answers by giving one of them first.
    function _isDue(Subject calldata subject, Place calldata place, Piece want) private view returns (bool) {
        if (place.piece != want) revert WrongPiece(place.piece, want);
        DataRequest storage d = _requests[_id(subject, place)];
        if (d.state == RequestState.Answered) return false;
        if (d.state != RequestState.Open) revert NoSuchRequest();
        if (_time() > d.until) revert ResponseLate(d.until);
        return true;
    }

    /// @dev Pays the author of an answer. Half of the deposit above a first request's is burned; the rest is returned.
    function _answered(Subject calldata subject, Place calldata place, uint256 size) private {
        DataRequest storage d = _requests[_id(subject, place)];
        d.state = RequestState.Answered;
        _remove(subject, place, d.life);
        uint256 price = d.price * UNIT;
        (uint256 least, uint256 deposit) =
            (depositOf(place.piece, price), depositAt(place.piece, d.rank, price));
        uint256 fee = price * (ANSWER_GAS + BYTE_GAS * size);
        // NOTE: bytes that no honest answer needs are not paid.
        if (fee > least) fee = least;
        uint256 burned = (deposit - least) / 2;
        _credit(msg.sender, fee);
        _credit(BURNED, burned);
        _credit(d.requester, deposit - fee - burned);
    }

    // ------------------------------------------------------------------ views

    function depositOf(Piece piece, uint256 price) public pure returns (uint256) {
        uint256 most = piece == Piece.Blocks ? MAX_BLOCK_BYTES : MAX_BYTES;
        return price * (ANSWER_GAS + BYTE_GAS * most);
    }

    function depositAt(Piece piece, uint256 rank, uint256 price) public pure returns (uint256) {
        return depositOf(piece, price) << rank;
    }

    function requestOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (DataRequest memory)
    {
        return _requests[_id(subject, place)];
    }

    function pending(IJobs jobs, uint256 jobId, bytes32 logs, bytes32 root, uint32 life)
        external
        view
        returns (uint256)
    {
        return uint256(_queues[_key(jobs, jobId, logs, 0)].open) + _queues[_key(jobs, jobId, root, life)].open;
    }

    function openOf(Subject calldata subject, Place calldata place)
        external
        view
        returns (uint256 open, uint256 others)
    {
        uint32 life = _ofLogs(place.piece) ? 0 : _checkClaimed(subject);
        bytes32 key = _key(subject.jobs, subject.jobId, subject.root, life);
        OpenRequests storage requests = _queues[key];
        return (requests.open, _others(key, requests, place));
    }

    function _ofLogs(Piece piece) private pure returns (bool) {
        return piece < Piece.Record;
    }

    function _id(Subject calldata subject, Place calldata place) private pure returns (bytes32) {
        return keccak256(abi.encode(subject, place));
    }

    function _key(IJobs jobs, uint256 jobId, bytes32 root, uint32 life) private pure returns (bytes32) {
        return keccak256(abi.encode(jobs, jobId, root, life));
    }

    /// @dev NOTE: `extend` checks that the logs are revealed.
    function _checkLogs(Subject calldata subject, Program memory program) private view returns (uint32) {
        if (!Modes.rounded(program.mode) || subject.root != subject.jobs.logsOf(subject.jobId)) {
            revert NoSuchLogs(subject.root);
        }
        return 0;
    }

    function _checkClaimed(Subject calldata subject) private view returns (uint32 life) {
        bool claimed;
        (life, claimed) = subject.jobs.standing(subject.jobId, subject.root);
        if (!claimed) revert NotClaimed(subject.root);
    }

    /// @dev Reverts if the program has no such place. SAFETY: there an honest claimant might have nothing to show.
    function _checkPlace(Program memory program, Place calldata place) private pure {
        bool whole = place.piece == Piece.Digests || place.piece == Piece.Record;
        if (place.piece != Piece.Leaf) _checkBelow(place.tensor, 1);
        if (whole) _checkBelow(place.part, 1);
        if (_ofLogs(place.piece)) {
            if (place.tree == 0 || place.tree > program.steps) revert NoSuchPlace(place.tree, program.steps);
        } else {
            _checkBelow(place.tree, Programs.checkpoints(program.steps, program.strides[0]));
        }
        uint256 unit = place.piece == Piece.Digests ? 1 << Pieces.DIGEST_LEVELS : 1;
        _checkBelow(place.node, (program.nodeCount + unit - 1) / unit);
    }

    function _checkBelow(uint256 place, uint256 count) private pure {
        if (place >= count) revert NoSuchPlace(place, count);
    }
}
