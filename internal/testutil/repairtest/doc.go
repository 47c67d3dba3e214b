// Package repairtest contains the common parts of the repair tests of all stores: runs in every
// state, the checks of a repair, and damage that is possible in any store.
//
// Each store test causes the damage that is specific to its data. A test brings a run into a state
// ([Scene]), damages it, and calls [World.Repairs], which verifies the following: the check finds
// the damage; a dry run reports the repair and changes nothing; ten concurrent repairs repair it
// once; no damage remains; the audit trail contains the reason; and a worker completes the run
// correctly.
package repairtest
