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

/// @title Requests
/// @notice See IDataAvailability. What an answer must be is in `availability/Pieces`.
///
///     none ─request─▶ open ─answer─▶ answered
///      ▲              │close: late, or lost already
///      └──────────────┘
/// @dev NOTE: `multicall` is not payable, so only answers and closings can be batched; `request` takes many places by itself.
contract DataAvailability is IDataAvailability, Escrow, Timed, Multicallable {
    // ------------------------------------------------------------------ types

    /// @dev What is open about one root, in one life of its group.
    struct OpenRequests {
        /// @dev Of logs, from when extensions count: the first request, later by the time that was waited for pages since.
        uint64 start;
        /// @dev Of logs: until when that time has been counted, and the most that may be counted for the pages that were requested.
        uint64 since;
        uint64 wait;
        uint32 open;
        /// @dev Of records: how many checkpoints the open ones are of.
        uint32 checkpoints;
    }

    // ------------------------------------------------------------------ storage

    /// @notice What an answer costs: a transaction of its own, two or three trees walked, two slots written, an event. Measured in
    /// tests/contracts/availability/RequestGas.t.sol.
    uint256 public constant ANSWER_GAS = 150_000;
    /// @notice A byte of calldata, hashed, read and logged; see there.
    uint256 public constant BYTE_GAS = 80;
    /// @notice More than a whole page of digests, a record with 255 inputs, or a leaf, with their paths.
    uint256 private constant MAX_BYTES = 13_312;
    /// @notice 8 blocks of 6,144 bytes, with theirs.
    uint256 private constant MAX_BLOCK_BYTES = 53_088;
    /// @notice Seconds for one more response, of whoever sends 100,000 bytes a minute: seven of the longest records and leaves, one
    /// page of blocks.
    uint256 private constant RECORD_SECONDS = 10;
    uint256 private constant LOG_SECONDS = 60;

    /// @notice Of one call: some 32,000 gas each.
    uint256 public constant MAX_PLACES = 256;
    /// @notice Pieces that are open under a root at most. NOTE: `DataAvailabilityHook.LISTS` is the time that so many take.
    uint256 public constant MAX_OPEN = 512;
    /// @notice A deposit doubles with every other checkpoint that is open under the root, and with every so many open pieces.
    uint256 public constant STEP = 64;
    /// @notice How often it doubles at most.
    uint256 public constant MAX_RANK = 15;
    /// @notice Wei in the unit of a request's price.
    uint256 private constant UNIT = 1_000;
    /// @notice Time counts as waited for pages of logs while so many are open. SAFETY: were it fewer, whoever requests a page when the
    /// one before is answered would put the end off for the gas of one page a block. Whoever needs fewer waits for one response.
    uint256 private constant CROWD = 32;

    mapping(bytes32 id => DataRequest) private _requests;
    mapping(bytes32 key => OpenRequests) private _queues;
    /// @dev Open pieces of a checkpoint.
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
        // SAFETY: logs are on its disk, but for a record the claimant has to go to its checkpoint. So each other checkpoint that is
        // open gives a whole period more: one after the other, none of them is late.
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
            // NOTE: who claims a root after all who had claimed it lost does not answer for what was requested of them.
            if (d.state == RequestState.Open && d.life != life) _drop(subject, place, id, d, false);
            // NOTE: whoever is first to request one of many places must not keep another from the rest.
            if (d.state != RequestState.None) continue;
            uint256 rank = others + requests.open / STEP;
            if (rank > MAX_RANK || requests.open >= MAX_OPEN) revert TooManyOpen(requests.open, others);
            // SAFETY: whoever answers one piece after the other, in the order of requests, is never late.
            until = uint64(from + requests.open * each);
            // SAFETY: whoever follows the run by pages that come as late as they may, 64 of them open at a time, is in time.
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
        // SAFETY: the guard against reentrancy spans the call.
        if (until != 0) subject.jobs.extend(subject.jobId, subject.root, requests.start, until);
        if (msg.value < deposit) revert WrongDeposit(msg.value, deposit);
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
            // NOTE: who claims a root after all who had claimed it lost does not answer for what was requested of them.
            (uint32 life, bool claimed) = subject.jobs.standing(subject.jobId, subject.root);
            moot = !claimed || life != d.life;
        }
        if (!moot && _time() <= d.until) revert NotLate(d.until);

        address requester = d.requester;
        _drop(subject, place, id, d, !moot);
        // SAFETY: the guard against reentrancy spans the call.
        if (moot) return;
        subject.jobs.forfeit(subject.jobId, subject.root, _ofLogs(place.piece), requester);
    }

    // ------------------------------------------------------------------ inside

    /// @dev How many checkpoints are open besides the place's.
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

    /// @dev Counts the time in which pages of logs were open. SAFETY: time that passes, and not pages, or whoever requests pages and
    /// answers them at once would put the end off for their gas.
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

    /// @dev A request is over without an answer: its deposit goes back, and the place can be requested again.
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

    /// @dev Every answer begins here: there is such a request, and it is in time.
    /// NOTE: to answer once more changes nothing, so that whoever is first with one of many answers does not undo the rest.
    function _isDue(Subject calldata subject, Place calldata place, Piece want) private view returns (bool) {
        if (place.piece != want) revert WrongPiece(place.piece, want);
        DataRequest storage d = _requests[_id(subject, place)];
        if (d.state == RequestState.Answered) return false;
        if (d.state != RequestState.Open) revert NoSuchRequest();
        if (_time() > d.until) revert ResponseLate(d.until);
        return true;
    }

    /// @dev Pays the author for what he has shown. Of what the deposit was more than the least, half is burned; the rest goes back.
    function _answered(Subject calldata subject, Place calldata place, uint256 size) private {
        DataRequest storage d = _requests[_id(subject, place)];
        d.state = RequestState.Answered;
        _remove(subject, place, d.life);
        uint256 price = d.price * UNIT;
        (uint256 least, uint256 deposit) =
            (depositOf(place.piece, price), depositAt(place.piece, d.rank, price));
        uint256 fee = price * (ANSWER_GAS + BYTE_GAS * size);
        // NOTE: what one could show without being asked for it is not paid.
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

    /// @dev NOTE: whether the logs are known, `extend` knows.
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

    /// @dev SAFETY: at any other place an honest claimant might have nothing to show.
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
