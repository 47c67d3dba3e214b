// Package pairs proves what two features do when they meet. Its tests multiply lists that the code has: the commands of operators and
// the states of runs, the options of directives, the roles, the routes and the objects. Each cell has a result that follows
// from rules, not from a table of observations:
//
//   - A scene brings a run into a state, and declares the facts of it. The test compares the facts with the store.
//   - The rules decide what a command does, purely from the facts. A cell that no rule decides, or that two rules decide differently,
//     fails.
//   - After each cell the test judges the store, the limits, the neighbors of the run, the logs and the faces: see the judge.
//   - Cells that are known to be contradicted are listed with the rules that they break. A row whose cell follows the rules fails the test,
//     and must be removed.
//
// Read facts_test.go, rules_test.go, scenes_test.go, commands_test.go and judge_test.go, in this order.
//
// The flags -pairs.table, -pairs.stores, -pairs.long, -pairs.seed and -pairs.scene are for the tests of this package only.
package pairs
