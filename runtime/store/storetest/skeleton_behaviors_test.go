package storetest_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestSkeleton_KeepsTheBehavioursOfItsPage proves that the skeleton has the behaviours that
// docs/internals/stores.md lists.
func TestSkeleton_KeepsTheBehavioursOfItsPage(t *testing.T) {
	storetest.RunOnly(t, storetest.Config{
		Open: func(_ testing.TB, clock store.Clock) store.Store { return newSkeleton(clock) },
	},
		"C1_CreateSentAgainIsTheSameRun",
		"C1_CreateSentAgainIsAskedBeforeThePolicy",
		"CreateKeepsWhatItIsGiven",
		"CreateJudgesEachRunByItself",
		"CreateOfNothingAnswersNothing",
		"C1_CreateUnderActiveUseAnswersTheActiveRun",
		"C1_CreateUnderActiveFailNamesTheActiveRun",
		"CreateWithATimeThatIsPastIsReadyNow",
		"LoadAnswersEachRunByItself",
		"ResolveOfAnUnknownWorkflowIDIsNotFound",
		"WatchReturnsAtOnceIfThereAreMoreFrames",
		"WatchOfAnUnknownRunIsNotFound",
		"WatchEndsWithItsContext",
	)
}
