package storetest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canKeepStepData(s store.Store) bool {
	_, ok := store.As[store.StepDataStore](s)
	return ok
}

func (h *harness) setStepData(l *Log, fence store.Fence, key, body string) error {
	n, _ := store.As[store.StepDataStore](h.store)
	return n.SetStepData(h.ctx, l.Run, fence, key, []byte(body), false)
}

func (h *harness) stepData(run event.RunID) map[string]string {
	h.Helper()
	n, _ := store.As[store.StepDataStore](h.store)
	got, err := n.StepData(h.ctx, run)
	h.check("step data", err)
	texts := map[string]string{}
	for key, body := range got {
		texts[key] = string(body)
	}
	return texts
}

var stepDataBehaviors = []behavior{
	{"StepDataIsKeptByRunAndKey", func(h *harness) {
		s := h.session()
		a, fa := h.startOwned(s)
		b, fb := h.startOwned(s)
		h.check("set step data", h.setStepData(a, fa, "x", "1"))
		h.check("set step data", h.setStepData(a, fa, "y", "2"))
		h.check("set step data", h.setStepData(b, fb, "x", "3"))
		h.check("replace step data", h.setStepData(a, fa, "x", "4"))
		h.equal("step data of one run", h.stepData(a.Run), map[string]string{"x": "4", "y": "2"})
		h.equal("step data of the other run", h.stepData(b.Run), map[string]string{"x": "3"})
		h.equal("step data of a run without any", h.stepData(h.start().Run), map[string]string(nil))
	}},
	{"StepDataIsThereForTheNextOwner", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set step data", h.setStepData(l, fence, "x", "1"))
		next := h.session()
		h.recoverDead(next)
		h.own(next, l)
		h.equal("step data", h.stepData(l.Run), map[string]string{"x": "1"})
	}},
	{"F1_StepDataNeedsEpochAndToken", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set step data", h.setStepData(l, fence, "x", "1"))
		h.is("another token", h.setStepData(l, store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()}, "x", "2"), store.ErrFenced)
		h.is("another epoch", h.setStepData(l, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}, "x", "2"), store.ErrFenced)
		h.is("an unknown run", h.setStepData(h.newLog(orders, ""), fence, "x", "2"), store.ErrFenced)
		h.park(l, fence, time.Time{})
		h.is("a former owner", h.setStepData(l, fence, "x", "2"), store.ErrFenced)
		h.is("nobody", h.setStepData(l, store.Fence{Epoch: fence.Epoch}, "x", "2"), store.ErrFenced)
		h.equal("step data", h.stepData(l.Run), map[string]string{"x": "1"})
	}},
	{"NewStepDataIsProgressIfItsWriterSaysSo", func(h *harness) {
		n, _ := store.As[store.StepDataStore](h.store)
		l, fence := h.startOwned(h.session())
		for i, test := range []struct {
			what, body string
			progress   bool
			want       int // the number of recoveries
		}{
			{"the first one", "1", true, 0},
			{"the same again", "1", true, 1},
			{"another one, not called progress", "2", false, 2},
			{"another one", "3", true, 0},
			{"the same again", "3", true, 1},
		} {
			next := h.session()
			h.recoverDead(next)
			fence = h.own(next, l)
			h.check("set step data", n.SetStepData(h.ctx, l.Run, fence, "x", []byte(test.body), test.progress))
			h.equal(fmt.Sprintf("recoveries after data %d, %s", i+1, test.what), h.record(l.Run).Recoveries, test.want)
		}
		h.unchanged("step data without the fence", func() {
			wrong := store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()}
			h.is("set step data", n.SetStepData(h.ctx, l.Run, wrong, "x", []byte("4"), true), store.ErrFenced)
		})
	}},
	{"StepDataEndsWithTheRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set step data", h.setStepData(l, fence, "x", "1"))
		h.finish(l, fence, event.StatusCompleted)
		h.equal("step data", h.stepData(l.Run), map[string]string(nil))
	}},
	{"StepDataOfAnUnknownRunIsNotFound", func(h *harness) {
		n, _ := store.As[store.StepDataStore](h.store)
		_, err := n.StepData(h.ctx, h.runID())
		h.is("step data", err, store.ErrRunNotFound)
	}},
}
