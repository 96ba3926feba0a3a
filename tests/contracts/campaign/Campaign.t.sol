// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Handler} from "./Handler.sol";

/// @notice Honest and hostile people in several jobs, matches, hearings and trials at a time: 4,000 acts, or a million
/// in the profile `campaign`.
/// forge-config: default.invariant.runs = 20
/// forge-config: default.invariant.depth = 200
/// forge-config: campaign.invariant.runs = 5000
/// forge-config: campaign.invariant.depth = 200
contract CampaignTest is Base {
    Handler private handler = new Handler();

    struct Selectors {
        address target;
        bytes4[] selectors;
    }

    function targetContracts() external view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(handler);
    }

    function targetSelectors() external view returns (Selectors[] memory list) {
        list = new Selectors[](1);
        list[0] = Selectors(address(handler), new bytes4[](1));
        list[0].selectors[0] = Handler.act.selector;
    }

    /// @dev Checks that every act is sometimes allowed: otherwise the campaign would show nothing. NOTE: a person that
    /// enlists again has been slashed.
    function test_everyActIsReached() external {
        for (uint256 i = 0; i < 12_000; ++i) {
            handler.act(uint256(keccak256(abi.encode("acts", i))));
        }
        _unbroken();
        for (uint256 kind = 0; kind < handler.ACTS(); ++kind) {
            yes(handler.done(Handler.Act(kind)) > 1, vm.toString(kind));
        }
        yes(handler.withheld() > 1, "jobs whose logs are withheld come to their end");
        yes(handler.queued() > 10, "claims behind others");
        yes(handler.again() > 10, "of dead roots");
        yes(handler.closing() > 10, "after the challenge phase");
        yes(handler.refutedLate() > 0, "refutations after it");
        yes(
            handler.reopened() > 0,
            string.concat("challenge periods that a refutation has opened: ", vm.toString(handler.reopened()))
        );
        yes(
            handler.defended() > 1,
            string.concat("of a truth that was given away: ", vm.toString(handler.defended()))
        );
    }

    /// @dev No honest claim is lost, no clock gains time, no answer is refused.
    function invariant_theHonestLoseNothing() external view {
        _unbroken();
    }

    /// @dev At the end of each run: everything adds up, everything ends, and everything adds up again.
    function afterInvariant() external {
        handler.check();
        handler.finish();
        _unbroken();
        handler.check();
    }

    function _unbroken() private view {
        string memory broken = handler.broken();
        if (bytes(broken).length > 0) revert NotSo(broken);
    }
}
