package operators

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// save saves a view, and returns it in the form in which the store must return it.
func (h *harness) save(name, filter string) store.View {
	h.Helper()
	v := store.View{Name: name, Filter: filter, By: "ada"}
	h.Check("save view", store.SaveView(h.Ctx, h.entries(), v))
	v.At = time.UnixMilli(h.Clock.Now().UnixMilli()).UTC()
	return v
}

// views returns all views.
func (h *harness) views() []store.View {
	h.Helper()
	all, err := store.Views(h.Ctx, h.entries())
	h.Check("read views", err)
	return all
}

var viewBehaviors = []behavior{
	{"V1_AViewIsKeptAsItWasSaved", func(h *harness) {
		h.Equal("views", h.views(), []store.View{})
		v := h.save("Night \"<b>\" 'shift' é\u202e", `status:failed tag:"team=blue & é" since:24h`)
		h.Equal("views", h.views(), []store.View{v})
	}},
	{"V1_AViewThatIsSavedAgainReplacesTheFirst", func(h *harness) {
		h.save("a", "status:failed")
		h.Clock.Advance(time.Hour)
		v := h.save("a", "status:running")
		h.Equal("views", h.views(), []store.View{v})
	}},
	{"V1_ViewsComeByTheirNames", func(h *harness) {
		for _, name := range []string{"b", "B", "é", "10", "a b", "a"} {
			h.save(name, "x")
		}
		var got []string
		for _, v := range h.views() {
			got = append(got, v.Name)
		}
		h.Equal("names", got, []string{"10", "B", "a", "a b", "b", "é"})
	}},
	{"V1_AViewThatIsDeletedIsGone", func(h *harness) {
		h.save("a", "x")
		b := h.save("b", "y")
		h.Check("delete view", store.DeleteView(h.Ctx, h.entries(), "a"))
		h.Equal("views", h.views(), []store.View{b})
		h.Is("delete it again", store.DeleteView(h.Ctx, h.entries(), "a"), store.ErrViewNotFound)
		h.Is("delete one that never was", store.DeleteView(h.Ctx, h.entries(), ""), store.ErrViewNotFound)
		h.Check("delete view", store.DeleteView(h.Ctx, h.entries(), "b"))
		h.Equal("views", h.views(), []store.View{})
		c := h.save("a", "z")
		h.Equal("views", h.views(), []store.View{c})
	}},
	{"V1_WhatIsNoViewIsRefused", func(h *harness) {
		long := strings.Repeat("é", store.MaxViewName)
		v := h.save(long, strings.Repeat("x", store.MaxViewFilter))
		for what, bad := range map[string]store.View{
			"no name":                {Filter: "x"},
			"no filter":              {Name: "a"},
			"a long name":            {Name: long + "x", Filter: "x"},
			"a very long name":       {Name: strings.Repeat("x", 1<<20), Filter: "x"},
			"a long filter":          {Name: "a", Filter: strings.Repeat("x", store.MaxViewFilter+1)},
			"a name of a space":      {Name: " ", Filter: "x"},
			"a space at the end":     {Name: "a ", Filter: "x"},
			"a filter with a space":  {Name: "a", Filter: " x"},
			"a name that is no text": {Name: "\xff", Filter: "x"},
			"a filter that is none":  {Name: "a", Filter: "\xff"},
			"two lines":              {Name: "a\nb", Filter: "x"},
			"a filter of two lines":  {Name: "a", Filter: "x\ny"},
			"an escape":              {Name: "\x1b[31m", Filter: "x"},
			"a zero":                 {Name: "a\x00", Filter: "x"},
		} {
			if err := store.SaveView(h.Ctx, h.entries(), bad); !errors.As(err, new(*store.InvalidError)) {
				h.Errorf("%s: got %v", what, err)
			}
		}
		h.Equal("views", h.views(), []store.View{v})
	}},
	{"V1_WhoHasSavedAViewIsKeptAsFarAsItIsText", func(h *harness) {
		h.Check("save view", store.SaveView(h.Ctx, h.entries(), store.View{Name: "a", Filter: "x", By: "\xff\x00" + strings.Repeat("x", store.MaxJournalText)}))
		by := h.views()[0].By
		h.Equal("by", by, store.KeptText(by, store.MaxJournalText))
		h.Equal("its length", len(by) > store.MaxJournalText-8, true)
	}},
	{"V1_ThereAreNoMoreViewsThanMayBe", func(h *harness) {
		for i := range store.MaxViews {
			h.save(fmt.Sprintf("view %02d", i), "x")
		}
		h.Is("one more", store.SaveView(h.Ctx, h.entries(), store.View{Name: "one more", Filter: "x"}), store.ErrViewsFull)
		h.Equal("views", len(h.views()), store.MaxViews)
		v := h.save("view 07", "y") // this view exists already
		h.Equal("one that was replaced", h.views()[7], v)
		h.Check("delete view", store.DeleteView(h.Ctx, h.entries(), "view 08"))
		h.save("one more", "x")
		h.Equal("views", len(h.views()), store.MaxViews)
	}},
	{"V1_ThoseWhoSaveAtOnceLoseNothing", func(h *harness) {
		const each = store.MaxViews / 8
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range 10 { // together more views than fit, so that some are refused
			all.Go(func() {
				for n := range each {
					for range 2 {
						err := store.SaveView(h.Ctx, h.entries(), store.View{Name: fmt.Sprint(i, ".", n), Filter: "x"})
						if errors.Is(err, store.ErrViewsFull) {
							refused.Add(1)
						} else if err != nil {
							h.Errorf("save view: %v", err)
						}
					}
				}
			})
		}
		all.Wait()
		h.Equal("views", len(h.views()), store.MaxViews)
		h.Equal("those that were refused", refused.Load(), int64(2*(10*each-store.MaxViews)))
	}},
	{"V1_OfThoseWhoDeleteAtOnceOneHas", func(h *harness) {
		h.save("a", "x")
		h.save("b", "x")
		var all sync.WaitGroup
		var deleted atomic.Int64
		for range 8 {
			all.Go(func() {
				switch err := store.DeleteView(h.Ctx, h.entries(), "a"); {
				case err == nil:
					deleted.Add(1)
				case !errors.Is(err, store.ErrViewNotFound):
					h.Errorf("delete view: %v", err)
				}
			})
		}
		all.Wait()
		h.Equal("times that it was deleted", deleted.Load(), int64(1))
		h.Equal("views", len(h.views()), 1)
	}},
	{"V1_ARunHasNothingToDoWithViews", func(h *harness) {
		h.Start()
		before := h.Inspect()
		h.save("a", "x")
		after := h.Inspect()
		h.Equal("entries", len(after.Entries), 1)
		after.Entries = before.Entries
		h.Equal("everything else", after, before)
	}},
	{"V1_AClosedStoreKeepsNoViews", func(h *harness) {
		k := h.entries()
		h.Check("close", h.Store.Close())
		h.Is("save view", store.SaveView(h.Ctx, k, store.View{Name: "a", Filter: "x"}), store.ErrClosed)
		h.Is("delete view", store.DeleteView(h.Ctx, k, "a"), store.ErrClosed)
		_, err := store.Views(h.Ctx, k)
		h.Is("read views", err, store.ErrClosed)
	}},
}

var reopenViewBehaviors = []behavior{
	{"V1_ViewsAreThereAfterTheStoreWasOpenedAgain", func(h *harness) {
		h.Reopen()
		h.Equal("views of a store that was never told of any", h.views(), []store.View{})
		v := h.save("a", "x")
		h.save("b", "x")
		h.Check("delete view", store.DeleteView(h.Ctx, h.entries(), "b"))
		h.Reopen()
		h.Equal("views", h.views(), []store.View{v})
	}},
}
