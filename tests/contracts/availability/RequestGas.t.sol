// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Counting} from "../support/Counting.sol";
import {Requested} from "./Requested.sol";
import {Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";

/// @notice The gas of requests and answers, and that an answer is paid more than it costs.
/// forge-config: default.isolate = true
contract RequestGasTest is Requested, Counting {
    uint256 private _job;

    constructor() {
        _job = runClaimed();
    }

    /// @dev At the deployer's price an answer costs less than it is paid.
    function test_anAnswerIsPaidWhatItCosts() public {
        Place[] memory list = somePlaces();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            request(s, list[i]);
            uint256 before = dataAvailability.credit(AUTHOR);
            answer(s, list[i]);
            uint256 gas = vm.snapshotGasLastCall("Requests", string.concat("answer ", vm.toString(i)));
            uint256 paid = dataAvailability.credit(AUTHOR) - before;
            yes(paid > gas * PRICE, vm.toString(gas));
            vm.snapshotValue("Requests", string.concat("answer ", vm.toString(i), ", paid"), paid / PRICE);
        }
    }

    /// @dev NOTE: the first answer of an account writes the word of its credits.
    function test_whatAnswersLeave() public {
        Place[] memory list = somePlaces();
        for (uint256 i = 0; i < list.length; ++i) {
            Subject memory s = list[i].piece < Piece.Record ? ofLogs(_job) : ofClaim(_job);
            request(s, list[i]);
            record();
            answer(s, list[i]);
            counted("counts", string.concat("answer ", vm.toString(i)));
        }
    }

    /// @dev The most places that a call takes, with another checkpoint open.
    function test_theLongestCall() public {
        Subject memory s = ofClaim(_job);
        request(s, recordIn(1, 0));
        Place[] memory list = leavesIn(2, type(uint64).max - 96, 96);
        bytes memory data = abi.encodeCall(dataAvailability.request, (s, list));
        request(s, list);
        uint256 gas = vm.snapshotGasLastCall("Requests", "request of 96 places");
        yes(gas < 12_000_000, vm.toString(gas));
        yes(data.length < 100_000, vm.toString(data.length));
    }

    function test_whatTheLongestCallLeaves() public {
        Subject memory s = ofClaim(_job);
        request(s, recordIn(1, 0));
        Place[] memory list = leavesIn(2, type(uint64).max - 96, 96);
        record();
        request(s, list);
        counted("counts", "request of 96 places");
    }

    function _many() private pure returns (Place[] memory list) {
        list = new Place[](64);
        for (uint64 i = 0; i < 64; ++i) {
            list[i] = blocks(1 + i % 5, uint32(i / 5 % 3), i);
        }
    }

    function test_whatManyPlacesLeave() public {
        Subject memory s = ofLogs(_job);
        Place[] memory list = _many();
        record();
        request(s, list);
        counted("counts", "request of 64 places");
    }

    function test_whatManyPlacesCost() public {
        Subject memory s = ofLogs(_job);
        request(s, _many());
        vm.snapshotGasLastCall("Requests", "request of 64 places");
        request(s, digests(1));
        vm.snapshotGasLastCall("Requests", "request of a place");
    }
}
