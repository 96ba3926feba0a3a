// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {ElementaryBatch} from "./ElementaryBatch.sol";
import {Elementary} from "contracts/float/Elementary.sol";
import {ElementaryBracket} from "contracts/float/ElementaryBracket.sol";

/// @notice What each function costs inside a contract: the mean over N(0, 1), and the most that was found among 10^5
/// inputs of all kinds (tests/float/elementary_inputs.py).
contract ElementaryGasTest is Base {
    uint256 private constant SIGN = 0x80000000;
    uint256 private constant CASES = 1000;

    ElementaryBatch private batch = new ElementaryBatch();

    /// @dev The bits of the sum of twelve uniform numbers, less 6: mean 0, variance 1.
    function _normal(uint256 seed) private pure returns (uint256) {
        uint256 random = uint256(keccak256(abi.encode(seed)));
        int256 sum = -(6 << 20);
        for (uint256 i = 0; i < 12; ++i) {
            sum += int256((random >> (20 * i)) & 0xFFFFF);
        }
        if (sum == 0) return 0;
        uint256 size = uint256(sum < 0 ? -sum : sum) << 128;
        return ElementaryBracket.toBinary32(size, size, -148, sum < 0 ? SIGN : 0);
    }

    function _measure(string memory name, uint256 mask, uint64 worst) private {
        // Four cases a word.
        uint256[] memory cases = new uint256[](CASES / 4);
        for (uint256 i = 0; i < CASES; ++i) {
            cases[i / 4] = (cases[i / 4] << 64) | ((_normal(2 * i) & mask) << 32) | _normal(2 * i + 1);
        }
        bytes32 which = bytes32(bytes(name));
        bytes memory spent = batch.gas(which, abi.encodePacked(cases));
        uint256 total;
        for (uint256 i = 0; i < CASES; ++i) {
            total += _word(spent, i);
        }
        _record(string.concat(name, ", mean"), total / CASES);
        _record(string.concat(name, ", worst"), _word(batch.gas(which, abi.encodePacked(worst)), 0));
    }

    function _word(bytes memory data, uint256 i) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(add(data, 32), mul(32, i)))
        }
    }

    function _record(string memory name, uint256 value) private {
        vm.snapshotValue("elementary", name, value);
    }

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
        _measure("pow", size, 0x3F800006_4AB930DC);
    }

    function test_codeSize() public {
        _record("code, bytes", address(new Elementary()).code.length);
    }
}
