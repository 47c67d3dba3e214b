package admintest

import (
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
)

// behaviors lists the required behaviors by name.
var behaviors = []struct {
	name string
	do   func(s *Scene)
}{
	{"StartsARunOfAWorkflowByItsName", startsByName},
	{"StartsOnceForAKey", startsOnce},
	{"StartsByThePoliciesOfAnID", startsByPolicy},
	{"StartsLaterAndOnHold", startsLater},
	{"RefusesAStartThatMakesNoSense", refusesStarts},
	{"ListsWorkflowsWithTheirSchemas", listsCatalog},
	{"RefusesAnInputThatDoesNotFitTheSchema", refusesInputs},
	{"KeepsNumbersAndTextOfPayloads", keepsPayloads},
	{"ListsAndCountsByEachField", lists},
	{"ListsPageByPage", pages},
	{"GroupsFailures", groupsFailures},
	{"ShowsWorkersAndQueues", showsFleet},
	{"ShowsTheRatesOfLiveWorkers", showsRates},
	{"ListsDeploysAndTheRunsThatNeedThem", showsDeploys},
	{"RampsAndRetiresBuilds", rampsDeploys},
	{"RefusesDeploysThatMakeNoSense", refusesDeploys},
	{"TellsWhichLimitsRunsUse", showsLimits},
	{"ShowsARunInEachState", shows},
	{"SaysWhatBlocksARun", saysWhatBlocks},
	{"ReadsALogInPages", readsLogs},
	{"ListsWhatARunHasBegun", listsEntities},
	{"ShowsWhatARunHasNotTaken", showsInboxes},
	{"ShowsHowFarARunIsInAGraph", showsGraphs},
	{"ShowsATree", showsTrees},
	{"FollowsARunThatHasEnded", followsEnded},
	{"FollowsARunWhileItRuns", followsLive},
	{"FollowsFromAnEvent", followsFrom},
	{"FollowsEventsOfTypes", followsTypes},
	{"FollowsWhatAnEventIsAbout", followsWhat},
	{"RefusesToFollowWhatMakesNoSense", refusesFollows},
	{"ListsStreams", listsStreams},
	{"ReadsStreams", readsStreams},
	{"FollowsStreams", followsStreams},
	{"TellsThatChunksAreGone", lagsBehindStreams},
	{"RefusesStreamsThatMakeNoSense", refusesStreams},
	{"WaitsForTheEndAndNoLonger", waits},
	{"Acts", acts},
	{"OffersTheActionsThatWouldSucceed", offers},
	{"ResumesARerunInItsDelay", resumesDelayed},
	{"ResumesManyRerunsInTheirDelays", resumesManyDelayed},
	{"RerunsOnceForAKey", rerunsByKeys},
	{"KeepsReasonsAndActsOnceForAKey", reasons},
	{"ActsOnManyRuns", actsOnMany},
	{"RetriesManyRuns", retriesMany},
	{"StopsABulkAction", stopsBulk},
	{"RefusesABulkActionThatMakesNoSense", refusesBulk},
	{"SendsAMessageOnceForAKey", sends},
	{"AsksAndGetsTheAnswer", asks},
	{"SaysInTheLogWhoHasAsked", signs},
	{"ReadsValues", values},
	{"ListsAndResumesHooks", resumesHooks},
	{"ListsTheHooksOfAllRuns", listsHooks},
	{"KeepsHooksOfOthersFromAnOwner", ownsHooks},
	{"RefusesHooksThatMakeNoSense", refusesHooks},
	{"MakesShowsAndListsSchedules", makesSchedules},
	{"ControlsSchedules", controlsSchedules},
	{"RefusesSchedulesThatMakeNoSense", refusesSchedules},
	{"ListsAndConfiguresLimits", configuresLimits},
	{"RefusesLimitsThatMakeNoSense", refusesLimits},
	{"SavesSharedViews", savesViews},
	{"RefusesViewsThatMakeNoSense", refusesViews},
	{"KeepsNoMoreViewsThanThereMayBe", boundsViews},
	{"ReadsTheJournal", journals},
	{"KeepsReasonsInTheJournal", journalsReasons},
	{"ChecksAndRepairsTheStore", checks},
	{"ExportsRuns", exports},
	{"RefusesExportsThatMakeNoSense", refusesExports},
	{"NamesRunsByHostileWorkflowIDs", hostileNames},
	{"AnswersBadInputAsTheStoreDoes", badInput},
	{"EndsWithItsContext", endsWithContext},
}

// Run tests the service that over returns. The argument of over is the service with direct access
// to the store. open returns an empty store.
func Run(t *testing.T, open func(t testing.TB) store.Store, over func(t testing.TB, direct *admin.Service) Service) {
	t.Helper()
	s := NewScene(t, open(t), over)
	for _, b := range behaviors {
		t.Run(b.name, func(t *testing.T) { b.do(s.on(t)) })
	}
}
