// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "./Market.sol";
import {Terms} from "contracts/interfaces/IJobs.sol";
import {HearingPhase} from "contracts/interfaces/IPanel.sol";
import {Phase, Reason} from "contracts/interfaces/IReferee.sol";

/// @title Heard
/// @notice A market with a hearing of one operator before the panel. 7 is right.
abstract contract Heard is Market {
    uint256 internal constant BOND = 1 ether;

    uint256 internal job;
    uint256 internal id;

    /// @dev Opens a hearing about the claims of persons 1 and 2.
    function _hear(uint256 output0, uint256 output1) internal {
        _hear(terms(2), output0, output1);
    }

    /// @dev Opens a hearing without verifiers.
    function _hearInCourt(uint256 output0, uint256 output1) internal {
        Terms memory t = terms(2);
        t.verifiers = new address[](0);
        t.rules.threshold = 0;
        _hear(t, output0, output1);
    }

    function _hear(Terms memory t, uint256 output0, uint256 output1) private {
        job = post(t);
        join(job, person(1));
        join(job, person(2));
        commit(job, person(1), output0);
        commit(job, person(2), output1);
        reveal(job, person(1), output0);
        reveal(job, person(2), output1);
        id = matchOf(job, output0);
        submit(id, output0, output1);
    }

    function _ruled(uint256 output0, uint256 output1, uint256 verdict) internal {
        _hear(output0, output1);
        decide(id, verdict);
        _in(HearingPhase.Ruled);
    }

    function _in(HearingPhase want) internal view {
        eq(uint256(phaseOf(id)), uint256(want), "phase of the hearing");
    }

    function _decided(uint8 losers, Reason reason) internal view {
        eq(uint256(referee.getMatch(id).phase), uint256(Phase.Done), "phase of the match");
        eq(referee.getMatch(id).losers, losers, "losers");
        eq(uint256(referee.getMatch(id).reason), uint256(reason), "reason");
    }

    function _bond(uint256 i) internal view returns (uint256) {
        return registry.getVerifier(verifier(i)).bond;
    }

    function _solvent() internal view {
        uint256 owed = panel.getHearing(hearingOf(id)).bond + panel.credit(panel.BURNED());
        for (uint160 n = 1; n < 3; ++n) {
            owed += panel.credit(address(0xF00000 + n));
        }
        for (uint256 i = 0; i < keys.length; ++i) {
            owed += panel.credit(verifier(i));
        }
        eq(address(panel).balance, owed, "balance = credits + bond");
    }

    function _free(uint256 i) internal {
        vm.prank(verifier(i));
        registry.unregister();
        pass(7 days);
        vm.prank(verifier(i));
        registry.withdrawBond();
    }
}
