// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {ChessClock} from "./clock/ChessClock.sol";
import {NOBODY, Sides} from "./clock/Sides.sol";
import {Encodings} from "./commit/Encodings.sol";
import {ElementSearch} from "./court/ElementSearch.sol";
import {StepSearch} from "./court/StepSearch.sol";
import {Dispute, Stage, Trial, TrialPosition, TrialTerms} from "./interfaces/ICourt.sol";
import {IExaminer} from "./interfaces/IExaminer.sol";
import {ITimekeeper} from "./interfaces/ITimekeeper.sol";
import {Multicallable} from "solady/utils/Multicallable.sol";

/// @title Court
/// @notice See ICourt. The moves are in `court/`: ElementSearch (to the element), StepSearch (to the step).
/// @dev NOTE: no move is payable and none reads `msg.value`, so `multicall`, which refuses ether, batches them safely.
contract Court is StepSearch, Multicallable {
    // ------------------------------------------------------------------ constructor

    constructor(IExaminer examiner, ITimekeeper keeper) ElementSearch(examiner) Timed(keeper) {}

    // ------------------------------------------------------------------ moves

    function open(uint256 id, address[2] calldata players, uint32 clock, Dispute calldata dispute)
        external
        returns (uint256 trialId)
    {
        (uint8 output, bytes32 hash) = EXAMINER.disputed(dispute);
        TrialTerms memory trialTerms = TrialTerms(msg.sender, id, players, hash);
        trialId = uint256(keccak256(abi.encode(trialTerms)));
        Trial storage t = _trials[trialId];
        if (t.stage != Stage.None) revert AlreadyOpen(trialId);
        t.output = output;
        t.tick = uint40(_time());
        t.stage = Stage.Outputs;
        (t.clock0, t.clock1) = (clock, clock);
        TrialPosition memory nothing;
        _keep(t, nothing);
        emit TrialOpened(trialId, msg.sender, trialTerms);
    }

    function timeout(TrialTerms calldata trialTerms) external {
        uint256 trialId = trialOf(trialTerms);
        Trial storage t = _trials[trialId];
        Sides losers = _late(t, _time());
        if (losers == NOBODY) revert NotTooLate(trialId, deadline(trialId));

        _decide(t, trialTerms, trialId, losers.bits(), true);
    }

    // ------------------------------------------------------------------ views

    function getTrial(uint256 trialId) external view returns (Trial memory) {
        return _trials[trialId];
    }

    function trialOf(TrialTerms calldata trialTerms) public pure returns (uint256) {
        return uint256(Encodings.hash(trialTerms));
    }

    function deadline(uint256 trialId) public view returns (uint256 instant) {
        Trial storage t = _trials[trialId];
        (instant,) = ChessClock.due(_owing(t), t.tick, t.clock0, t.clock1);
    }

    function places(uint256 trialId) external view returns (uint64[] memory found) {
        Trial storage t = _trials[trialId];
        if (t.stage != Stage.Post && t.stage != Stage.Answer) return found;
        found = new uint64[](_places(t));
        for (uint256 i = 0; i < found.length; ++i) {
            found[i] = _at(t, found.length, i + 1);
        }
    }
}
