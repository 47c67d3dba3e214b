// Package operators contains the behaviours of requests that operators and the console make: lists,
// failure groups, the fleet, the audit, entries (catalogue, journal and views), imports and step
// data.
package operators

import (
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Groups contains the behaviours of this package.
var Groups = []suite.Group{
	{Behaviors: suite.Tests(unservedBehaviors)},
	{Behaviors: suite.Tests(servesBehaviors), Needs: suite.Has[store.Roster]},
	{Behaviors: suite.Tests(readyBehaviors), Needs: suite.Has[store.ReadyLister]},
	{Behaviors: suite.Tests(readyLimitBehaviors), Needs: all(suite.Has[store.ReadyLister], suite.Has[store.Limiter])},
	{Behaviors: suite.Tests(fleetBehaviors), Needs: suite.Has[store.FleetTeller]},
	{Behaviors: suite.Tests(fleetLimitBehaviors), Needs: all(suite.Has[store.FleetTeller], suite.Has[store.Limiter])},
	{Behaviors: suite.Tests(listBehaviors, budgetBehaviors, labelBehaviors), Needs: suite.Has[store.Lister]},
	{Behaviors: suite.Tests(auditBehaviors), Needs: suite.Has[store.Auditor]},
	{Behaviors: suite.Tests(stepDataBehaviors), Needs: suite.Has[store.StepDataStore]},
	{Behaviors: suite.Tests(sessionDataBehaviors), Needs: suite.Has[store.SessionDataStore]},
	{Behaviors: suite.Tests(failureGroupBehaviors), Needs: suite.Has[store.FailureGroupLister]},
	{Behaviors: suite.Tests(listFailureGroupBehaviors), Needs: all(suite.Has[store.FailureGroupLister], suite.Has[store.Lister])},
	{Behaviors: suite.Tests(entryBehaviors, catalogBehaviors, journalBehaviors, viewBehaviors), Needs: suite.Has[store.Entries]},
	{Behaviors: suite.Tests(reopenEntryBehaviors, reopenCatalogBehaviors, reopenJournalBehaviors, reopenViewBehaviors), Needs: suite.Has[store.Entries], Reopens: true},
	{Behaviors: suite.Tests(importBehaviors), Needs: suite.Has[store.Importer]},
	{Behaviors: suite.Tests(importFailureGroupBehaviors), Needs: all(suite.Has[store.Importer], suite.Has[store.FailureGroupLister], suite.Has[store.Lister])},
	{Behaviors: suite.Tests(labelImportBehaviors), Needs: all(suite.Has[store.Importer], suite.Has[store.Lister])},
	{Behaviors: suite.Tests(reopenImportBehaviors), Needs: suite.Has[store.Importer], Reopens: true},
}

// all returns a condition that holds if each condition in needs holds.
func all(needs ...func(store.Store) bool) func(store.Store) bool {
	return func(s store.Store) bool {
		for _, has := range needs {
			if !has(s) {
				return false
			}
		}
		return true
	}
}

type behavior suite.Behavior[harness]

// harness extends the harness of the suite with the requests of operators.
type harness struct{ *suite.Harness }
