// Package pairs proves the behavior of combinations of two features. Its tests multiply lists that
// the code contains: the commands of operators and the states of runs, the options of directives,
// the roles, the routes and the objects. Each cell has a result that follows from rules, not from a
// table of observations:
//
//   - A scene brings a run into a state, and declares the facts of the state. The test compares
//     the facts with the store.
//   - The rules determine the effect of a command from the facts alone. A cell to which no rule
//     applies, or for which two rules differ, fails.
//   - After each cell the test judges the store, the limits, the neighbors of the run, the logs
//     and the faces: see the judge.
//   - Cells that are known to violate rules are listed with these rules. If the cell of a row
//     follows the rules, the row fails the test and must be removed.
//
// Read facts_test.go, rules_test.go, scenes_test.go, commands_test.go and judge_test.go, in this
// order.
//
// The flags -pairs.table, -pairs.stores, -pairs.long, -pairs.seed and -pairs.scene apply to the
// tests of this package only.
package pairs
