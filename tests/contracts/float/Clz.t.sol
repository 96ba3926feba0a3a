// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {clz} from "clz/Clz.sol";

/// @notice The number of zero bits above the highest one, in the implementation that the profile selects.
contract ClzTest is Base {
    function test_zeroHasAllBits() public pure {
        eq(clz(0), 256, "clz(0)");
    }

    function test_everyHighestBit_withZerosAndWithOnesBelow() public pure {
        for (uint256 top = 0; top < 256; ++top) {
            uint256 one = 1 << top;
            eq(clz(one), 255 - top, "zeros below");
            eq(clz(one | (one - 1)), 255 - top, "ones below");
        }
    }

    function testFuzz_whatIsBelowDoesNotCount(uint256 x, uint8 top) public pure {
        uint256 one = uint256(1) << top;
        eq(clz(one | (x & (one - 1))), 255 - uint256(top), "clz");
    }
}
