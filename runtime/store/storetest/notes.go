package storetest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canNote(s store.Store) bool {
	_, ok := store.As[store.Noter](s)
	return ok
}

func (h *harness) note(l *Log, fence store.Fence, key, body string) error {
	n, _ := store.As[store.Noter](h.store)
	return n.SetNote(h.ctx, l.Run, fence, key, []byte(body), false)
}

func (h *harness) notes(run event.RunID) map[string]string {
	h.Helper()
	n, _ := store.As[store.Noter](h.store)
	got, err := n.Notes(h.ctx, run)
	h.check("notes", err)
	texts := map[string]string{}
	for key, body := range got {
		texts[key] = string(body)
	}
	return texts
}

var noteBehaviors = []behavior{
	{"NotesAreKeptByRunAndKey", func(h *harness) {
		s := h.session()
		a, fa := h.startOwned(s)
		b, fb := h.startOwned(s)
		h.check("set note", h.note(a, fa, "x", "1"))
		h.check("set note", h.note(a, fa, "y", "2"))
		h.check("set note", h.note(b, fb, "x", "3"))
		h.check("replace note", h.note(a, fa, "x", "4"))
		h.equal("notes of one run", h.notes(a.Run), map[string]string{"x": "4", "y": "2"})
		h.equal("notes of the other run", h.notes(b.Run), map[string]string{"x": "3"})
		h.equal("notes of a run without any", h.notes(h.start().Run), map[string]string(nil))
	}},
	{"NotesAreThereForTheNextOwner", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set note", h.note(l, fence, "x", "1"))
		next := h.session()
		h.recoverDead(next)
		h.own(next, l)
		h.equal("notes", h.notes(l.Run), map[string]string{"x": "1"})
	}},
	{"F1_NotesNeedEpochAndToken", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set note", h.note(l, fence, "x", "1"))
		h.is("another token", h.note(l, store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()}, "x", "2"), store.ErrFenced)
		h.is("another epoch", h.note(l, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token}, "x", "2"), store.ErrFenced)
		h.is("an unknown run", h.note(h.newLog(orders, ""), fence, "x", "2"), store.ErrFenced)
		h.park(l, fence, time.Time{})
		h.is("a former owner", h.note(l, fence, "x", "2"), store.ErrFenced)
		h.is("nobody", h.note(l, store.Fence{Epoch: fence.Epoch}, "x", "2"), store.ErrFenced)
		h.equal("notes", h.notes(l.Run), map[string]string{"x": "1"})
	}},
	{"ANewNoteIsProgressIfItsWriterSaysSo", func(h *harness) {
		n, _ := store.As[store.Noter](h.store)
		l, fence := h.startOwned(h.session())
		for i, test := range []struct {
			what, body string
			progress   bool
			want       int // recoveries
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
			h.check("set note", n.SetNote(h.ctx, l.Run, fence, "x", []byte(test.body), test.progress))
			h.equal(fmt.Sprintf("recoveries after note %d, %s", i+1, test.what), h.record(l.Run).Recoveries, test.want)
		}
		h.unchanged("a note without the fence", func() {
			wrong := store.Fence{Epoch: fence.Epoch, Token: h.ids.Token()}
			h.is("set note", n.SetNote(h.ctx, l.Run, wrong, "x", []byte("4"), true), store.ErrFenced)
		})
	}},
	{"NotesEndWithTheRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.check("set note", h.note(l, fence, "x", "1"))
		h.finish(l, fence, event.StatusCompleted)
		h.equal("notes", h.notes(l.Run), map[string]string(nil))
	}},
	{"NotesOfAnUnknownRunAreNotFound", func(h *harness) {
		n, _ := store.As[store.Noter](h.store)
		_, err := n.Notes(h.ctx, h.runID())
		h.is("notes", err, store.ErrRunNotFound)
	}},
}
