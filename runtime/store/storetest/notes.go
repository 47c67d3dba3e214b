package storetest

import (
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
	return n.SetNote(h.ctx, l.Run, fence, key, []byte(body))
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
