package history

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Comparison with a store that does not show its whole state. It uses only requests that change
// nothing.

// present returns the queue states of the runs that the store has. If the store does not show its
// state, the result contains only runs of the model.
func (h *history) present() map[event.RunID]store.QueueState {
	h.Helper()
	present := map[event.RunID]store.QueueState{}
	if h.Shows() {
		for id, r := range h.Inspect().Runs {
			present[id] = r.QueueState
		}
		return present
	}
	var visible []event.RunID
	for _, r := range h.m.sorted() {
		if !r.Hidden {
			visible = append(visible, r.Run)
			continue
		}
		if err := h.Delete(r.Run); err == nil { // a repeated delete fails if the run was purged
			present[r.Run] = store.StateEnded
		} else {
			h.Is("delete again", err, store.ErrRunNotFound)
		}
	}
	for i, l := range h.loadAll(visible, true) {
		if l.Err == nil {
			present[visible[i]] = l.Record.QueueState
		}
	}
	return present
}

// compareAnswers fails the test unless the store and the model return the same answers for all
// runs, workflow IDs and sessions.
func (h *history) compareAnswers() {
	h.Helper()
	var runs []event.RunID
	for _, l := range h.logs {
		runs = append(runs, l.Run)
	}
	for id := range h.m.runs {
		if !slices.Contains(runs, id) {
			runs = append(runs, id)
		}
	}
	for i, got := range h.loadAll(runs, false) {
		want := store.Loaded{Err: store.ErrRunNotFound}
		if r := h.m.find(runs[i]); r != nil {
			want = store.Loaded{Record: r.Record, Frames: r.Frames, Inbox: r.Inbox}
		}
		h.Equal("run "+string(runs[i]), got, want)
	}
	for _, name := range []string{"a", "b"} {
		h.compareResolve(h.WorkflowID(name))
	}
	for _, s := range h.sessions {
		h.compareOwned(s.ID)
	}
	for _, route := range h.emptied {
		if h.m.wakes[route] {
			h.unsure[route] = true
		}
	}
	h.emptied = nil
	for route := range h.unsure {
		if !h.m.wakes[route] || len(h.m.readyRuns(route)) > 0 { // the store has announced a route with ready runs
			delete(h.unsure, route)
		}
	}
}

// loadAll loads runs. If brief is set, it loads only their records.
func (h *history) loadAll(runs []event.RunID, brief bool) []store.Loaded {
	h.Helper()
	if len(runs) == 0 {
		return nil
	}
	requests := make([]store.Load, len(runs))
	for i, run := range runs {
		requests[i] = store.Load{Run: run, Inbox: !brief}
		if brief {
			requests[i].Limit = -1
		}
	}
	answers, err := h.Store.Load(h.Ctx, requests)
	h.Check("load", err)
	h.Equal("number of answers", len(answers), len(runs))
	return answers
}

func (h *history) compareResolve(wid string) {
	h.Helper()
	got, err := h.Store.Resolve(h.Ctx, wid)
	want, ok := h.m.active[wid]
	if !ok {
		want, ok = h.m.last[wid]
	}
	if ok {
		h.Check("resolve", err)
	} else {
		h.Is("resolve", err, store.ErrRunNotFound)
	}
	h.Equal("resolve", got, want)
}

func (h *history) compareOwned(s store.SessionID) {
	h.Helper()
	owned, err := h.Store.Reconcile(h.Ctx, 0, s)
	slices.SortFunc(owned, func(a, b store.Owned) int { return compareIDs(a.Run, b.Run) })
	want, wantErr := h.m.reconcile(s)
	h.sameError("reconcile", err, wantErr)
	h.Equal("reconcile", owned, want)
}
