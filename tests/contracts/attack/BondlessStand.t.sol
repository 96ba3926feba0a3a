// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Heard} from "../support/Heard.sol";
import {Mirror} from "./SelfSlash.t.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @notice A signer burns its bond in a hearing of its own. Then it could stand by its lie at no risk, again and again;
/// but a signer without a bond may not stand.
/// forge-config: default.isolate = true
contract BondlessStandTest is Heard {
    /// @dev Burns the first verifier's bond in a hearing of its own making.
    function _burnFirst() private {
        Mirror mirror = new Mirror();
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        s.jobs = address(mirror);
        (s.players[0], s.players[1]) = (address(0xAAA), address(0xBBB));
        mirror.submit(panel, s, d);
        uint256 hearingId = panel.hearingOf(address(mirror), id);
        (uint8 v, bytes32 r, bytes32 z) = vm.sign(keys[0], panel.verdictDigest(hearingId, 1, 0, root(8)));
        bytes32 lie = root(8);
        panel.attest(hearingId, s, lie, abi.encodePacked(r, z, v));
        vm.prank(address(0xAAA));
        panel.appeal(hearingId, s, d);
        TrialTerms memory trialTerms =
            TrialTerms(address(panel), hearingId | 1, s.players, keccak256(abi.encode(d)));
        TrialPosition memory nothing;
        bytes32[2] memory shown = [dataRoot(7), bytes32(0)];
        court.showOutputs(trialTerms, d, nothing, shown);
        pass(1);
        court.timeout(trialTerms);
        pass(1);
        panel.proceed(hearingId, s);
        eq(_bond(0), 0, "gone");
    }

    function _overruled() private {
        _ruled(7, 8, 8);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Defence);
        _burnFirst();
    }

    function _refused(uint256 i) private {
        (Submission memory s, Dispute memory d) = (submissionOf(id), disputeOf(id));
        (uint256 hearingId, Record memory lie) = (hearingOf(id), record(8));
        vm.prank(verifier(i));
        refuses(IPanel.NoBond.selector);
        panel.stand(hearingId, s, d, lie);
    }

    function test_whoHasNoBondDoesNotStand() public {
        _overruled();
        _refused(0);
        pass(PERIOD);
        proceed(id);
        _in(HearingPhase.Done);
        eq(panel.credit(person(1)), STAKE + BOND / 2, "its own bond, and half of the other signer's");
        eq(panel.credit(panel.BURNED()), BOND + BOND / 2, "the rest of both");
        eq(panel.credit(verifier(0)), 0, "the liar has lost its bond");
    }

    function test_aBondOfAnotherPanelIsNone() public {
        _overruled();
        vm.deal(verifier(0), BOND);
        vm.prank(verifier(0));
        registry.register{value: BOND}(address(0xBEEF), "http://verifier");
        _refused(0);
    }

    /// @dev A new bond is at risk.
    function test_whoPutsDownABondAnewLosesIt() public {
        _overruled();
        vm.deal(verifier(0), BOND);
        vm.prank(verifier(0));
        registry.register{value: BOND}(address(panel), "http://verifier");
        stand(id, 0, 8);
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Defence);
        eq(panel.credit(person(1)), BOND / 2, "half of it, for the trial");
        eq(_bond(0), 0, "lost");
    }
}
