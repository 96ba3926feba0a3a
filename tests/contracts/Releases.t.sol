// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "./support/Market.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Releases} from "contracts/Releases.sol";
import {IReleases, Parts, Release, Status} from "contracts/interfaces/IReleases.sol";

/// @notice A list of releases that only grows, and a publisher that can do nothing else.
contract ReleasesTest is Market {
    address private constant PUBLISHER = address(0x9B);
    Releases private releases = new Releases(PUBLISHER);
    address private watch = deploy("Watch.sol:Watch", "");

    function _parts() private view returns (Parts memory) {
        return Parts({
            jobs: address(jobs),
            referee: address(referee),
            panel: address(panel),
            court: address(court),
            registry: address(registry),
            dataAvailability: address(dataAvailability),
            watch: watch,
            timekeeper: address(time)
        });
    }

    function _publish(string memory version) private returns (uint256) {
        vm.prank(PUBLISHER);
        return releases.publish(version, 1, 0, _parts());
    }

    function _status(string memory version, Status want) private view {
        eq(uint256(releases.releaseOf(version).status), uint256(want), "status");
    }

    function test_aReleaseIsWhatWasPublishedWithTheCodeThatIsThere() public {
        eq(_publish("1.0"), 1, "number");
        eq(_publish("1.1"), 2, "number");
        eq(releases.releaseCount(), 2, "count");
        Release memory r = releases.releaseAt(1);
        eq(keccak256(bytes(r.version)), keccak256("1.0"), "version");
        eq(r.opset, 1, "opset");
        eq(r.published, block.number, "block");
        eq(r.parts.jobs, address(jobs), "jobs");
        eq(r.parts.registry, address(registry), "registry");
        eq(r.parts.dataAvailability, address(dataAvailability), "requests");
        eq(r.codes.jobs, keccak256(address(jobs).code), "code of jobs");
        eq(r.codes.referee, keccak256(address(referee).code), "code of the referee");
        eq(r.codes.panel, keccak256(address(panel).code), "code of the panel");
        eq(r.codes.court, keccak256(address(court).code), "code of the court");
        eq(r.codes.registry, keccak256(address(registry).code), "code of the registry");
        eq(r.codes.dataAvailability, keccak256(address(dataAvailability).code), "code of the requests");
        eq(r.codes.watch, keccak256(watch.code), "code of the watch");
        eq(r.codes.timekeeper, keccak256(address(time).code), "code of the timekeeper");
        eq(keccak256(abi.encode(releases.releaseOf("1.0"))), keccak256(abi.encode(r)), "by version");
        vm.expectRevert(abi.encodeWithSelector(IReleases.NoSuchRelease.selector, 0));
        releases.releaseAt(0);
        vm.expectRevert(abi.encodeWithSelector(IReleases.NoSuchRelease.selector, 3));
        releases.releaseAt(3);
        vm.expectRevert(abi.encodeWithSelector(IReleases.NoSuchVersion.selector, "2.0"));
        releases.releaseOf("2.0");
    }

    function test_onlyThePublisherSaysAnything() public {
        _publish("1.0");
        bytes memory refusal =
            abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, address(this));
        Parts memory parts = _parts();
        vm.expectRevert(refusal);
        releases.publish("1.1", 1, 0, parts);
        vm.expectRevert(refusal);
        releases.supersede("1.0", "there is 1.1");
        vm.expectRevert(refusal);
        releases.withdraw("1.0", "a bug");
        _status("1.0", Status.Current);
    }

    function test_thePublisherChangesOnlyWhenTheNextOneAccepts() public {
        vm.prank(PUBLISHER);
        releases.transferOwnership(address(this));
        eq(releases.owner(), PUBLISHER, "still");
        _publish("1.0");
        releases.acceptOwnership();
        releases.withdraw("1.0", "a bug");
        _status("1.0", Status.Withdrawn);
    }

    function test_aVersionIsTakenOnceAndForEver() public {
        _publish("1.0");
        vm.prank(PUBLISHER);
        releases.withdraw("1.0", "a bug");
        Parts memory parts = _parts();
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IReleases.VersionTaken.selector, "1.0"));
        releases.publish("1.0", 1, 0, parts);
    }

    function test_whatIsNoReleaseIsRefused() public {
        Parts memory parts = _parts();
        vm.startPrank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IReleases.TextLength.selector, 0, 32));
        releases.publish("", 1, 0, parts);
        vm.expectRevert(abi.encodeWithSelector(IReleases.TextLength.selector, 33, 32));
        releases.publish(string(new bytes(33)), 1, 0, parts);
        uint64 next = uint64(block.number) + 1;
        vm.expectRevert(abi.encodeWithSelector(IReleases.FromTheFuture.selector, next, block.number));
        releases.publish("1.0", 1, next, parts);
        for (uint256 k = 0; k < 2; ++k) {
            // An account that nobody has used, and one that has ether but no code.
            parts.court = k == 0 ? address(0xDEAD0001) : CLIENT;
            vm.expectRevert(abi.encodeWithSelector(IReleases.NoCode.selector, parts.court));
            releases.publish("1.0", 1, 0, parts);
        }
        vm.stopPrank();
        eq(releases.releaseCount(), 0, "nothing was added");
    }

    function test_aReleaseGoesOneWayOnly() public {
        _publish("1.0");
        vm.startPrank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IReleases.TextLength.selector, 0, 256));
        releases.supersede("1.0", "");
        releases.supersede("1.0", "there is 1.1");
        _status("1.0", Status.Superseded);
        vm.expectRevert(abi.encodeWithSelector(IReleases.NotCurrent.selector, "1.0", Status.Superseded));
        releases.supersede("1.0", "there is 1.2");
        vm.expectRevert(abi.encodeWithSelector(IReleases.TextLength.selector, 257, 256));
        releases.withdraw("1.0", string(new bytes(257)));
        releases.withdraw("1.0", "a bug");
        _status("1.0", Status.Withdrawn);
        eq(keccak256(bytes(releases.releaseOf("1.0").reason)), keccak256("a bug"), "the reason");
        vm.expectRevert(abi.encodeWithSelector(IReleases.AlreadyWithdrawn.selector, "1.0"));
        releases.withdraw("1.0", "another bug");
        vm.expectRevert(abi.encodeWithSelector(IReleases.NotCurrent.selector, "1.0", Status.Withdrawn));
        releases.supersede("1.0", "there is 1.1");
        vm.expectRevert(abi.encodeWithSelector(IReleases.NoSuchVersion.selector, "9"));
        releases.withdraw("9", "a bug");
        vm.stopPrank();
    }

    function test_aJobOfAWithdrawnReleaseGoesOnToItsEnd() public {
        _publish("1.0");
        uint256 job = claimed(7, 8);
        vm.prank(PUBLISHER);
        releases.withdraw("1.0", "a bug");
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        rule(id, 7);
        pass(PERIOD);
        finalize(job);
        credited(person(1), REWARD + STAKE + STAKE / 2 - STAKE / 10, "reward, stake and prize");
    }

    function test_itTakesNoEther() public {
        vm.deal(address(this), 1 ether);
        (bool ok,) = address(releases).call{value: 1}("");
        yes(!ok, "refused");
        vm.deal(PUBLISHER, 1 ether);
        Parts memory parts = _parts();
        vm.prank(PUBLISHER);
        (ok,) = address(releases).call{value: 1}(abi.encodeCall(IReleases.publish, ("1.0", 1, 0, parts)));
        yes(!ok, "refused");
    }
}
