// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {ElementaryBatch} from "./ElementaryBatch.sol";
import {Normals} from "./Normals.sol";
import {ElementaryRsqrt} from "contracts/float/ElementaryRsqrt.sol";

/// @notice The gas of each function inside a contract: the mean over N(0, 1), over magnitudes if a negative number is
/// outside the domain; and the worst cases that a search has found (docs/float-elementary.md).
contract ElementaryGasTest is Base {
    uint256 private constant SIGN = 0x80000000;
    uint256 private constant CASES = 256;

    ElementaryBatch private batch = new ElementaryBatch();

    function test_gas() public {
        uint256 any = type(uint256).max;
        uint256 size = ~SIGN;
        _measure("exp", any, 0xC2CFF1E4_00000000);
        _measure("log", size, 0x3FACF066_00000000);
        _measure("erf", any, 0x405FDD58_00000000);
        _measure("tanh", any, 0x41105A09_00000000);
        _measure("sin", any, 0x7C8C627F_00000000);
        _measure("cos", any, 0x65C28B93_00000000);
        _measure("log1p", size, 0xBF398423_00000000);
        _measure("pow", size, 0x3488A420_413E0000);
    }

    function test_rsqrtBracket() public {
        uint256 total;
        for (uint256 i = 0; i < CASES; ++i) {
            uint256 x = _normal(i) & ~SIGN;
            uint256 before = gasleft();
            (uint256 low,,,) = ElementaryRsqrt.bracket(x);
            total += before - gasleft();
            yes(low != 0, "used, so that no compiler leaves the call out");
        }
        _record("rsqrt, bracket, mean", total / CASES);
    }

    function test_codeSize() public {
        _record("code of all functions and of this test's, bytes", address(batch).code.length);
    }

    /// @dev The worst case is a and b, 4 bytes each.
    function _measure(string memory name, uint256 mask, uint64 worst) private {
        // Four cases a word.
        uint256[] memory cases = new uint256[](CASES / 4);
        for (uint256 i = 0; i < CASES; ++i) {
            cases[i / 4] = (cases[i / 4] << 64) | ((_normal(i) & mask) << 32) | _normal(i + 1);
        }
        bytes32 which = bytes32(bytes(name));
        bytes memory spent = batch.gas(which, abi.encodePacked(cases));
        uint256 total;
        for (uint256 i = 0; i < CASES; ++i) {
            total += _word(spent, 32 * i);
        }
        _record(string.concat(name, ", mean"), total / CASES);
        _record(string.concat(name, ", worst"), _word(batch.gas(which, abi.encodePacked(worst)), 0));
    }

    function _normal(uint256 i) private pure returns (uint256) {
        return _word(Normals.SINGLE, 4 * i) >> 224;
    }

    function _word(bytes memory data, uint256 offset) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(add(data, 32), offset))
        }
    }

    function _record(string memory name, uint256 value) private {
        vm.snapshotValue("elementary", name, value);
    }
}
