// Package repairtest has the common parts of the tests of repairs of all stores:
// runs in every state, the proof that a repair does what it must, and the damage
// that can be done to any store.
//
// Each store does its own damage, to what it really keeps. A test brings a run
// into a state ([Scene]), damages it, and then hands over to [World.Repairs]: the
// check finds it, a dry run says what would be done and changes nothing, ten
// repairs at once repair it once, nothing is broken any more, the audit trail names
// the reason, and a worker brings the run to its right end.
package repairtest
