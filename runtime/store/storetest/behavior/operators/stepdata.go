package operators

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var stepDataBehaviors = []behavior{
	{"StepDataIsKeptByRunAndKey", func(h *harness) {
		s := h.Session()
		a, fa := h.StartOwned(s)
		b, fb := h.StartOwned(s)
		h.Check("set step data", h.SetStepData(a, fa, "x", "1"))
		h.Check("set step data", h.SetStepData(a, fa, "y", "2"))
		h.Check("set step data", h.SetStepData(b, fb, "x", "3"))
		h.Check("replace step data", h.SetStepData(a, fa, "x", "4"))
		h.Equal("step data of one run", h.StepData(a.Run), map[string]string{"x": "4", "y": "2"})
		h.Equal("step data of the other run", h.StepData(b.Run), map[string]string{"x": "3"})
		h.Equal("step data of a run without any", h.StepData(h.Start().Run), map[string]string(nil))
	}},
	{"StepDataIsThereForTheNextOwner", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
		next := h.Session()
		h.RecoverDead(next)
		h.Own(next, l)
		h.Equal("step data", h.StepData(l.Run), map[string]string{"x": "1"})
	}},
	{"F1_StepDataNeedsEpochAndToken", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
		h.Is("another token", h.SetStepData(l, store.Fence{Epoch: fence.Epoch, Token: h.IDs.Token()}, "x", "2"), store.ErrFenced)
		h.Is("another epoch", h.SetStepData(l, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}, "x", "2"), store.ErrFenced)
		h.Is("an unknown run", h.SetStepData(h.NewLog(suite.Orders, ""), fence, "x", "2"), store.ErrFenced)
		h.Park(l, fence, time.Time{})
		h.Is("a former owner", h.SetStepData(l, fence, "x", "2"), store.ErrFenced)
		h.Is("nobody", h.SetStepData(l, store.Fence{Epoch: fence.Epoch}, "x", "2"), store.ErrFenced)
		h.Equal("step data", h.StepData(l.Run), map[string]string{"x": "1"})
	}},
	{"NewStepDataIsProgressIfItsWriterSaysSo", func(h *harness) {
		n, _ := store.As[store.StepDataStore](h.Store)
		l, fence := h.StartOwned(h.Session())
		for i, test := range []struct {
			what, body string
			progress   bool
			want       int // number of recoveries
		}{
			{"the first one", "1", true, 0},
			{"the same again", "1", true, 1},
			{"another one, not called progress", "2", false, 2},
			{"another one", "3", true, 0},
			{"the same again", "3", true, 1},
		} {
			next := h.Session()
			h.RecoverDead(next)
			fence = h.Own(next, l)
			h.Check("set step data", n.SetStepData(h.Ctx, l.Run, fence, "x", []byte(test.body), test.progress))
			h.Equal(fmt.Sprintf("recoveries after data %d, %s", i+1, test.what), h.Record(l.Run).Recoveries, test.want)
		}
		h.Unchanged("step data without the fence", func() {
			wrong := store.Fence{Epoch: fence.Epoch, Token: h.IDs.Token()}
			h.Is("set step data", n.SetStepData(h.Ctx, l.Run, wrong, "x", []byte("4"), true), store.ErrFenced)
		})
	}},
	{"StepDataEndsWithTheRun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
		h.Finish(l, fence, event.StatusCompleted)
		h.Equal("step data", h.StepData(l.Run), map[string]string(nil))
	}},
	{"StepDataOfAnUnknownRunIsNotFound", func(h *harness) {
		n, _ := store.As[store.StepDataStore](h.Store)
		_, err := n.StepData(h.Ctx, h.RunID())
		h.Is("step data", err, store.ErrRunNotFound)
	}},
}
