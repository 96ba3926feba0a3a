// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Heard} from "../support/Heard.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Rules} from "contracts/interfaces/IJobs.sol";
import {HearingPhase, IPanel, Submission} from "contracts/interfaces/IPanel.sol";
import {Reason} from "contracts/interfaces/IReferee.sol";

/// @notice A Jobs contract and a referee in which a signer loses its bond to itself, in three seconds.
contract Mirror {
    function rulesOf(uint256) external pure returns (Rules memory, uint256) {
        return (Rules(1, 10, 1, 0), 0);
    }

    function isVerifier(uint256, address) external pure returns (bool) {
        return true;
    }

    function submit(IPanel panel, Submission calldata submission, Dispute calldata dispute) external {
        panel.hear(submission, dispute);
    }

    function onHearingDecided(uint256, uint8, Reason, address[] calldata) external {}
}

/// @notice A signer of a false verdict loses its bond to itself, before it loses it to the side that was right.
contract SelfSlashTest is Heard {
    /// @dev A bond that two hearings hold is burned whole.
    function test_aSignerSavesNothingOfItsBond() public {
        _ruled(7, 8, 8);
        appeal(id, person(1));
        tryHonestly(id, 7, 8);
        _in(HearingPhase.Defence);

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
        eq(panel.credit(address(0xAAA)), 0, "nothing of the bond is saved");
        eq(panel.credit(panel.BURNED()), BOND, "all of it is burned");

        pass(PERIOD);
        proceed(id);
        eq(panel.credit(person(1)), STAKE + BOND / 2, "its own bond back, and half of the other signer's");
        eq(panel.credit(address(0xAAA)), 0, "the signer has lost its bond");
    }
}
