package storetest

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

// Config configures the suite for the store under test.
type Config struct {
	// Open returns an empty store that reads all times from clock. The suite closes it. Required.
	Open func(t testing.TB, clock store.Clock) store.Store
	// Reopen opens the data of s, a closed store, again. It is nil if the store keeps no data after
	// Close.
	Reopen func(t testing.TB, s store.Store, clock store.Clock) store.Store
	// Checks is the number of random histories; 0 means 100. The flag -rapid.checks overrides it.
	// The flags -rapid.seed and -rapid.steps have their usual meaning.
	Checks int
}

// behavior is a rule for stores, named as a sentence, and the test that proves it.
type behavior struct {
	name string
	test func(h *harness)
}

// group contains the behaviours of one subject, and the condition under which they apply to a
// store.
type group struct {
	behaviors []behavior
	needs     func(store.Store) bool // nil: the group applies to every store
}

func groups(cfg Config) []group {
	return []group{
		{createBehaviors, nil}, {itemBehaviors, nil}, {lineBehaviors, nil}, {gatherBehaviors, nil}, {sessionBehaviors, nil}, {unservedBehaviors, nil},
		{servesBehaviors, canTellWhoServes}, {fleetBehaviors, CanTellFleet},
		{fleetLimitBehaviors, func(s store.Store) bool { return CanTellFleet(s) && CanLimit(s) }}, {recoverBehaviors, nil},
		{claimBehaviors, nil}, {handedBehaviors, nil}, {ownerBehaviors, nil}, {ownerAgainBehaviors, nil}, {ownerRaceBehaviors, nil},
		{commitBehaviors, nil}, {effectBehaviors, nil}, {blockedBehaviors, nil}, {deliverBehaviors, nil},
		{outboxBehaviors, nil}, {outboxOrderBehaviors, nil}, {refusalBehaviors, nil}, {createdByBehaviors, nil}, {keptBehaviors, nil},
		{continueBehaviors, nil}, {chainBehaviors, nil}, {chainPurgeBehaviors, nil}, {chainRaceBehaviors, nil},
		{streamBehaviors, nil}, {streamPageBehaviors, nil}, {streamSideBehaviors, nil}, {streamChainBehaviors, nil},
		{streamAwaitBehaviors, nil}, {streamRaceBehaviors, nil}, {loadBehaviors, nil}, {dueBehaviors, nil}, {waitBehaviors, nil}, {watchBehaviors, nil},
		{purgeBehaviors, nil}, {purgeOrderBehaviors, nil}, {deleteBehaviors, nil},
		{raceBehaviors, nil}, {closeBehaviors, nil}, {extremeBehaviors, nil}, {nameBehaviors, nil},
		{listBehaviors, CanList}, {budgetBehaviors, CanList}, {labelBehaviors, CanList}, {extremeListBehaviors, CanList}, {auditBehaviors, CanAudit}, {stepDataBehaviors, CanKeepStepData},
		{troubleBehaviors, CanTellTroubles}, {listTroubleBehaviors, func(s store.Store) bool { return CanTellTroubles(s) && CanList(s) }},
		{catalogBehaviors, canKeepCatalog}, {reopenCatalogBehaviors, func(s store.Store) bool { return canKeepCatalog(s) && cfg.Reopen != nil }},
		{journalBehaviors, canKeepJournal}, {reopenJournalBehaviors, func(s store.Store) bool { return canKeepJournal(s) && cfg.Reopen != nil }},
		{viewBehaviors, canKeepViews}, {reopenViewBehaviors, func(s store.Store) bool { return canKeepViews(s) && cfg.Reopen != nil }},
		{importBehaviors, canImport}, {importTroubleBehaviors, func(s store.Store) bool { return canImport(s) && CanTellTroubles(s) && CanList(s) }},
		{labelImportBehaviors, func(s store.Store) bool { return canImport(s) && CanList(s) }},
		{reopenImportBehaviors, func(s store.Store) bool { return canImport(s) && cfg.Reopen != nil }},
		{limitBehaviors, CanLimit}, {shareBehaviors, CanLimit}, {shownBehaviors, func(s store.Store) bool { return CanLimit(s) && canReadTurns(s) }},
		{reopenBehaviors, func(store.Store) bool { return cfg.Reopen != nil }},
	}
}

// Run runs the whole suite: one subtest per behaviour, and random histories against a model.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	for _, g := range groups(cfg) {
		if !applies(t, cfg, g.needs) {
			continue
		}
		for _, b := range g.behaviors {
			t.Run(b.name, func(t *testing.T) { b.test(NewHarness(t, t, cfg)) })
		}
	}
	t.Run("RandomHistoriesMatchTheModel", func(t *testing.T) { runHistories(t, cfg) })
}
