package pairs_test

// owed lists the cells that do not follow the rules, as scene and command, with the rules that each
// violates. A row whose cell follows the rules fails the test and must be removed. A star stands
// for any scene, or any command.
var owed = map[[2]string][]string{}
