// Package pairs tests combinations of two features. Its tests multiply lists that the code
// contains: the commands of operators and the states of runs, the options of directives, the roles,
// the routes, and the objects. A cell is one combination. Its result follows from rules and not
// from a table of observed results:
//
//   - A scene brings a run into a state and declares the facts of the state. The test compares
//     the facts with the store.
//   - The rules determine the effect of a command from the facts alone. A cell fails if no rule
//     applies to it, or if two rules determine different effects.
//   - After the command of a cell, the test checks the store, the limits, the runs beside the
//     cell, the logs, and the views of all interfaces: see judge.
//   - Cells that are known to violate rules are listed with these rules. If a listed cell
//     follows the rules, its row fails the test and must be removed.
//
// Read facts_test.go, rules_test.go, scenes_test.go, commands_test.go and judge_test.go, in this
// order.
//
// The flags -pairs.table, -pairs.stores, -pairs.long, -pairs.seed, -pairs.scene and -pairs.hosting apply only to
// the tests of this package.
package pairs
