// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descent} from "contracts/commit/Descents.sol";
import {Match, MatchTerms, Phase, Position} from "contracts/interfaces/IReferee.sol";

/// @notice The content of a descent.
struct Step {
    Descent way;
    bytes32 previous;
    bytes32[] previousPath;
}

/// @title Positions
/// @notice The position of a match after each move, as an observer computes it from the one before and the move.
library Positions {
    /// @dev Returns the position at the top of the first tree.
    function opened(MatchTerms memory matchTerms) internal pure returns (Position memory to) {
        for (uint256 side = 0; side < 2; ++side) {
            (to.root[side], to.node[side]) = (matchTerms.roots[side], matchTerms.roots[side]);
        }
        to.agreed = matchTerms.program.initialRoot;
    }

    /// @dev `now_`: the match after the move.
    function descended(
        Position memory here,
        MatchTerms memory matchTerms,
        Match memory now_,
        Step memory step
    ) internal pure returns (Position memory to) {
        to = copy(here);
        (to.node[0], to.node[1]) = (step.way.node0, step.way.node1);
        if (step.previous != 0) to.agreed = step.previous;
        // From a run tree to the trees of one step, whose roots are its leaves.
        bool top = 1 << now_.height >= matchTerms.program.nodeCount;
        if (now_.level == matchTerms.program.strides.length && top) to.root = [to.node[0], to.node[1]];
    }

    /// @dev `now_`: the match after the move.
    function refined(Position memory here, Match memory now_, uint8 side, bytes32 root)
        internal
        pure
        returns (Position memory to)
    {
        to = copy(here);
        to.root[side] = root;
        if (now_.phase == Phase.Walk) to.node = [to.root[0], to.root[1]];
    }

    function hash(Position memory here) internal pure returns (bytes32) {
        return keccak256(abi.encode(here));
    }

    function copy(Position memory here) internal pure returns (Position memory) {
        return Position([here.root[0], here.root[1]], [here.node[0], here.node[1]], here.agreed);
    }
}
