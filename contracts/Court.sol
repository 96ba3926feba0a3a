// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "./Timed.sol";
import {Encodings} from "./commit/Encodings.sol";
import {Structures} from "./commit/Structures.sol";
import {Chain} from "./court/Chain.sol";
import {Search} from "./court/Search.sol";
import {IOpset} from "./element/IOpset.sol";
import {Dispute, Said, Stage, Suit, Trial} from "./interfaces/ICourt.sol";
import {ITimekeeper} from "./interfaces/ITimekeeper.sol";
import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";

/// @title Court
/// @notice See ICourt. The moves are in `court/`: Search (to the element), Chain (to the step).
/// @dev NOTE: no move is payable and none reads `msg.value`, so `multicall` can batch them safely.
contract Court is Chain, Multicall {
    // ------------------------------------------------------------------ constructor

    constructor(IOpset opset, ITimekeeper keeper) Search(opset) Timed(keeper) {}

    // ------------------------------------------------------------------ moves

    function open(uint256 id, address[2] calldata players, uint32 clock, Dispute calldata dispute)
        external
        returns (uint256 trialId)
    {
        // SAFETY: encoded anew, whatever form it lies in: this is what later hashes are compared with.
        Suit memory suit = Suit(msg.sender, id, players, keccak256(abi.encode(dispute)));
        trialId = uint256(keccak256(abi.encode(suit)));
        Trial storage t = _trials[trialId];
        if (t.stage != Stage.None) revert AlreadyOpen(trialId);
        t.output = _disputed(dispute);
        t.tick = uint40(_time());
        t.stage = Stage.Outputs;
        (t.clock0, t.clock1) = (clock, clock);
        Said memory nothing;
        _keep(t, nothing);
        emit TrialOpened(trialId, msg.sender, suit);
    }

    function timeout(Suit calldata suit) external {
        uint256 trialId = trialOf(suit);
        Trial storage t = _trials[trialId];
        uint8 losers = _late(t, _time());
        if (losers == NOBODY) revert NotTooLate(trialId, deadline(trialId));

        _decide(t, suit, trialId, losers, true);
    }

    // ------------------------------------------------------------------ views

    function getTrial(uint256 trialId) external view returns (Trial memory) {
        return _trials[trialId];
    }

    function trialOf(Suit calldata suit) public pure returns (uint256) {
        return uint256(Encodings.hash(suit));
    }

    function deadline(uint256 trialId) public view returns (uint256 instant) {
        (instant,) = _due(_trials[trialId]);
    }

    function places(uint256 trialId) external view returns (uint64[] memory found) {
        Trial storage t = _trials[trialId];
        if (t.stage != Stage.Post && t.stage != Stage.Answer) return found;
        found = new uint64[](_places(t));
        for (uint256 i = 0; i < found.length; ++i) {
            found[i] = _at(t, found.length, i + 1);
        }
    }

    /// @dev The first output whose hashes differ. Reverts unless that is what the records differ in.
    function _disputed(Dispute calldata dispute) private pure returns (uint8 output) {
        bytes32[] calldata outputs0 = dispute.records[0].outputs;
        bytes32[] calldata outputs1 = dispute.records[1].outputs;
        (,, uint8 nout) = Structures.header(dispute.structure);
        if (
            outputs0.length != nout || outputs1.length != nout
                || dispute.records[0].structure != dispute.records[1].structure
                || dispute.records[0].log != dispute.records[1].log
                || keccak256(abi.encode(dispute.records[0].inputs))
                    != keccak256(abi.encode(dispute.records[1].inputs))
        ) revert RecordsDiffer();
        while (output < nout && outputs0[output] == outputs1[output]) ++output;
        if (output == nout) revert OutputsEqual();
    }
}
