package event_test

import (
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
)

func TestLoop_EveryWalkThatGoesRoundIsNoticedAndNoOther(t *testing.T) {
	for before := range 20 {
		for round := range 20 {
			var l event.Loop
			steps, at := 0, 0
			for ; steps < 1000 && !l.Closed(event.RunID(fmt.Sprint(at))); steps++ {
				if at++; at == before+round && round > 0 {
					at = before
				}
			}
			if noticed := steps < 1000; noticed != (round > 0) || noticed && steps > 4*(before+round)+4 {
				t.Errorf("%d runs, then %d in a circle: noticed %v after %d steps", before, round, noticed, steps)
			}
		}
	}
}
