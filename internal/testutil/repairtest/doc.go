// Package repairtest contains the common parts of the repair tests of all stores: runs in every
// state, the checks of a repair, and damage that can occur in any store.
//
// The test of a store adds the damage that is specific to the store. A test brings a run into a
// state ([Scene]), damages it, and calls [World.Repairs]. Repairs proves the following. The check
// finds the damage. A dry run reports the repair and changes nothing. Ten concurrent repairs repair
// the damage once. No damage remains. The audit trail contains the reason. A worker completes the
// run correctly.
package repairtest
