// Package runs contains the behaviours of single runs and of the sessions that own them: creates,
// claims, commits, effects, timers, waits and recoveries.
package runs

import (
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Groups contains the behaviours of this package.
var Groups = []suite.Group{
	{Behaviors: suite.Tests(createBehaviors, itemBehaviors, lineBehaviors, collectBehaviors, sessionBehaviors, recoverBehaviors)},
	{Behaviors: suite.Tests(claimBehaviors, handedBehaviors, ownerBehaviors, ownerAgainBehaviors, ownerRaceBehaviors)},
	{Behaviors: suite.Tests(commitBehaviors, effectBehaviors, blockedBehaviors, loadBehaviors, dueBehaviors, waitBehaviors, watchBehaviors)},
	{Behaviors: suite.Tests(raceBehaviors, closeBehaviors, extremeBehaviors, nameBehaviors)},
	{Behaviors: suite.Tests(extremeListBehaviors), Needs: suite.Has[store.Lister]},
	{Behaviors: suite.Tests(reopenBehaviors), Reopens: true},
}

type behavior suite.Behavior[harness]

// harness extends the harness of the suite with requests about runs and sessions.
type harness struct{ *suite.Harness }
