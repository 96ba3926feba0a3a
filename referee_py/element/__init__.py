"""One element of one operator, as a chain of steps so small that a contract computes any one of them.

An element's chain (docs/adjudication.md) has a length that shapes and attributes give, a first state, and a step that
makes the next state from a state and at most four operand elements. Two parties who differ in an element differ in a
state. So there is a first step that one of them got wrong, and the referee has to compute only that step.

case      an element of an operator
scalar    binary32 and i64 values as bits
positions operand elements that an output element depends on
points    operators whose elements are one step each
chains    operators whose elements are many steps, with `lanes`
sums      sums that no order changes, with `exact_sum`
exact     the differences in the mode exact
rounded   the differences in rounded-f64
tensor    the differences in tc16
modes     the rule of sums in each mode
rules     the rule of each operator
native    the same chains, computed natively
"""

from .case import NO_ENTRY, Case, Entry, Read
from .rules import evaluate, rule_of, states

__all__ = ["NO_ENTRY", "Case", "Entry", "Read", "evaluate", "rule_of", "states"]
