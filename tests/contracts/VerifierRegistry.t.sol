// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "./Base.t.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {ITimed, ITimekeeper} from "contracts/interfaces/ITimekeeper.sol";
import {IVerifierRegistry} from "contracts/interfaces/IVerifierRegistry.sol";

/// @notice Verifiers register, move and leave; their bond stays for a while.
contract VerifierRegistryTest is Base {
    address private constant GUARDIAN = address(0x60A4D);
    Timekeeper private time = new Timekeeper(GUARDIAN, 30 days);
    VerifierRegistry private registry = new VerifierRegistry(1 ether, 7 days, time);
    address private constant PANEL = address(0x9A11E1);
    address private vera = address(0x7E4A);

    constructor() {
        vm.warp(1_700_000_000);
        vm.deal(vera, 10 ether);
    }

    function _register() private {
        vm.prank(vera);
        registry.register{value: 2 ether}(PANEL, "http://vera");
    }

    function test_anybodyRegistersWithABond() public {
        vm.prank(vera);
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.BondTooSmall.selector, 1 ether - 1, 1 ether));
        registry.register{value: 1 ether - 1}(PANEL, "http://vera");
        _register();
        yes(registry.serves(vera, PANEL), "active");
        eq(registry.getVerifier(vera).bond, 2 ether, "bond");
        eq(keccak256(bytes(registry.getVerifier(vera).uri)), keccak256("http://vera"), "endpoint");
        eq(registry.verifierAt(0), vera, "listed");
        vm.prank(vera);
        refuses(IVerifierRegistry.AlreadyRegistered.selector);
        registry.register{value: 1 ether}(PANEL, "http://vera");
    }

    function test_endpointsAreBoundedAndCanMove() public {
        vm.prank(vera);
        refuses(IVerifierRegistry.UriTooLong.selector);
        registry.register{value: 1 ether}(PANEL, string(new bytes(513)));
        vm.prank(vera);
        refuses(IVerifierRegistry.NotRegistered.selector);
        registry.move("http://elsewhere");
        _register();
        vm.prank(vera);
        registry.move("http://elsewhere");
        eq(keccak256(bytes(registry.getVerifier(vera).uri)), keccak256("http://elsewhere"), "endpoint");
        vm.prank(vera);
        refuses(IVerifierRegistry.UriTooLong.selector);
        registry.move(string(new bytes(513)));
    }

    function test_theBondStaysLockedForTheDelay() public {
        _register();
        vm.prank(vera);
        refuses(IVerifierRegistry.StillLocked.selector);
        registry.withdrawBond();
        vm.prank(vera);
        registry.unregister();
        yes(!registry.serves(vera, PANEL), "not active");
        vm.prank(vera);
        refuses(IVerifierRegistry.AlreadyLeaving.selector);
        registry.unregister();
        pass(7 days - 1);
        vm.prank(vera);
        refuses(IVerifierRegistry.StillLocked.selector);
        registry.withdrawBond();
        pass(1);
        vm.prank(vera);
        registry.withdrawBond();
        eq(vera.balance, 10 ether, "all is back");
        vm.prank(vera);
        refuses(IVerifierRegistry.NotRegistered.selector);
        registry.withdrawBond();
    }

    function test_theDelayWaitsInAPause() public {
        _register();
        vm.prank(vera);
        registry.unregister();
        vm.prank(GUARDIAN);
        time.pause();
        pass(8 days);
        vm.prank(vera);
        refuses(IVerifierRegistry.StillLocked.selector);
        registry.withdrawBond();
        vm.prank(GUARDIAN);
        time.resume();
        pass(7 days);
        vm.prank(vera);
        registry.withdrawBond();
    }

    /// @dev An address without a contract, or a contract that returns nothing, is not a timekeeper.
    function test_withoutATimekeeperNothingBegins() public {
        registry = new VerifierRegistry(1 ether, 7 days, ITimekeeper(address(0x71ED)));
        _register();
        for (uint256 i = 0; i < 2; ++i) {
            vm.prank(vera);
            vm.expectRevert(abi.encodeWithSelector(ITimed.NoTime.selector, address(0x71ED)));
            registry.unregister();
            vm.etch(address(0x71ED), hex"00");
        }
    }

    function test_whoComesBackIsListedOnce() public {
        _register();
        vm.prank(vera);
        registry.unregister();
        pass(7 days);
        vm.prank(vera);
        registry.withdrawBond();
        _register();
        yes(registry.serves(vera, PANEL), "active again");
        eq(registry.verifierCount(), 1, "listed once");
    }

    function test_aBondAnswersToItsPanelAlone() public {
        _register();
        yes(!registry.serves(vera, address(this)), "no other panel");
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.NotPanel.selector, address(this), PANEL));
        registry.hold(vera);
        _takes(0, true);
        eq(registry.getVerifier(vera).bond, 2 ether, "bond");
        vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.NotHeld.selector, vera, address(this)));
        registry.release(vera);
        vm.prank(PANEL);
        _takes(2 ether, true);
        eq(PANEL.balance, 2 ether, "in ether");
        eq(registry.getVerifier(vera).bond, 0, "gone");
        vm.prank(PANEL);
        _takes(0, true);
    }

    /// @dev A panel that takes a bond learns whether another hearing holds it, too.
    function test_aBondThatTwoHearingsHold() public {
        _register();
        for (uint256 i = 0; i < 2; ++i) {
            vm.prank(PANEL);
            registry.hold(vera);
        }
        vm.prank(PANEL);
        _takes(2 ether, false);
        vm.prank(PANEL);
        registry.release(vera);
        _register();
        vm.prank(PANEL);
        _takes(2 ether, true);
    }

    /// @dev The word of holds stays when the last one is released; it must not count as one.
    function test_noBondIsReleasedMoreOftenThanItIsHeld() public {
        _register();
        for (uint256 round = 0; round < 2; ++round) {
            vm.prank(PANEL);
            registry.hold(vera);
            vm.prank(PANEL);
            registry.release(vera);
            vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.NotHeld.selector, vera, PANEL));
            vm.prank(PANEL);
            registry.release(vera);
        }
    }

    function _takes(uint256 want, bool wantAlone) private {
        (uint256 bond, bool alone) = registry.take(vera);
        eq(bond, want, "taken");
        yes(alone == wantAlone, "by how many it is held");
    }

    function test_aHeldBondStays() public {
        _register();
        vm.prank(PANEL);
        registry.hold(vera);
        vm.prank(PANEL);
        registry.hold(vera);
        vm.prank(vera);
        registry.unregister();
        pass(7 days);
        for (uint256 held = 2; held > 0; --held) {
            vm.prank(vera);
            vm.expectRevert(abi.encodeWithSelector(IVerifierRegistry.StillHeld.selector, vera, held));
            registry.withdrawBond();
            vm.prank(PANEL);
            registry.release(vera);
        }
        vm.prank(vera);
        registry.withdrawBond();
        eq(vera.balance, 10 ether, "all is back");
    }

    function test_aBondOfZeroIsNoBond() public {
        refuses(IVerifierRegistry.BondTooSmall.selector);
        new VerifierRegistry(0, 7 days, time);
    }
}
